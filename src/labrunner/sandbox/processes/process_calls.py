"""Calls into a sandbox of processes: each is a phase of its own, so nothing outlives its call."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from labrunner.errors import SandboxFailed
from labrunner.sandbox.door import AgentRun, AttemptFolders, Phase, PhaseEnd
from labrunner.sandbox.execution import LONGEST_S, ExecCall, ExecEnd, read_end
from labrunner.sandbox.processes.phase import Finished, Scratch, choose_scratch, make_scratch

if TYPE_CHECKING:
    from labrunner.sandbox.terminals.person import Person, TerminalCall

Launch = Callable[[Phase, Scratch], Awaitable[Finished]]


class ProcessCalls:
    """Calls in a sandbox of processes: each is a phase of its own, so nothing outlives its call."""

    def __init__(self, folders: AttemptFolders, launch: Launch) -> None:
        """Take how a phase is launched over given folders."""
        self._folders = folders
        self._launch = launch
        self._agent: Phase | None = None
        self._setup: PhaseEnd | None = None
        self._scratch: Scratch | None = None
        self._count = 0

    async def begin(self, setup: Phase | None, agent: Phase) -> PhaseEnd | None:
        """Run the setup."""
        self._agent = agent
        if setup is not None:
            scratch = choose_scratch(self._folders, setup.name)
            self._setup = (await self._launch(setup, scratch)).end
        self._scratch = await asyncio.to_thread(make_scratch, self._folders, "exec")
        return self._setup

    async def exec(self, call: ExecCall) -> ExecEnd:
        """Carry out one call."""
        if self._agent is None or self._scratch is None:
            raise SandboxFailed("not_begun", "a call came before the sandbox was opened for calls")
        self._count += 1
        stream = f"exec-{self._count}"
        stdin = self._folders.logs / f"{stream}.stdin" if call.stdin is not None else None
        phase = replace(
            self._agent,
            # What a grader sees of the attempt's folders is told by the phase's name.
            name="grader" if self._agent.name == "grader" else "exec",
            stream=stream,
            argv=call.command,
            env={**self._agent.env, **call.env},
            user=call.user or self._agent.user,
            timeout_s=call.timeout_s or LONGEST_S,
            stdin=stdin,
        )
        try:
            if stdin is not None:
                stdin.write_bytes(call.stdin or b"")
            finished = await self._launch(phase, self._scratch)
            return read_end(finished.end, self._folders.logs, stream, call.max_output)
        finally:
            for kind in ("stdin", "stdout", "stderr"):
                (self._folders.logs / f"{stream}.{kind}").unlink(missing_ok=True)

    async def attend(self, call: "TerminalCall", person: "Person") -> ExecEnd:
        """Run a command at a terminal."""
        if self._scratch is None:
            raise SandboxFailed("not_begun", "a call came before the sandbox was opened for calls")
        from labrunner.sandbox.terminals.outer_end import hold_line, inner_command  # few are looked around in

        async with hold_line(self._scratch.tmp, person):
            return await self.exec(ExecCall(argv=inner_command(call), env=call.env))

    async def end_all(self) -> AgentRun:
        """Nothing is left: the end of each call was proven."""
        return AgentRun(setup=self._setup, agent=None)
