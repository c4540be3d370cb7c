"""Calls into an attempt's sandbox while a solver outside of it works: what every such sandbox promises.

`begin` runs the setup and opens the sandbox for calls. A call's time limit ends its whole process tree before
the call returns. What calls leave running may live until `end_all`, which is the barrier: after it nothing of
them is left. Calls after the barrier are the scorers'. HOME and TMPDIR are the same in all calls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from labrunner.errors import SandboxFailed
from labrunner.sandbox.door import AgentRun, AttemptFolders, Phase, PhaseEnd, Sandbox
from labrunner.sandbox.phase import Finished, Scratch, choose_scratch, make_scratch

MAX_OUTPUT: Final = 10 * 1024 * 1024
"""Bytes of each of a call's output streams that are handed back, by default."""
LONGEST_S: Final = 7 * 24 * 3600.0
"""The time limit of a call without one."""
_IN_FOLDER: Final = 'cd -- "$1" || exit 1; shift; exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCall:
    """One command to be run in a sandbox."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """On top of the agent's."""
    cwd: str | None = None
    """From the workspace; None for the workspace itself."""
    user: str | None = None
    timeout_s: float | None = None
    stdin: bytes | None = None
    """None closes standard input."""
    max_output: int = MAX_OUTPUT

    @property
    def command(self) -> tuple[str, ...]:
        """What is started: the command itself, in its folder."""
        return self.argv if self.cwd is None else ("/bin/sh", "-c", _IN_FOLDER, "sh", self.cwd, *self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecEnd:
    """How a call ended. Output that is too long has lost its middle."""

    exit_status: int | None
    """128 + n when a signal ended it; None when we did."""
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    over_disk: bool = False
    is_cut: bool = False
    seconds: float = 0.0


@runtime_checkable
class ExecSandbox(Sandbox, Protocol):
    """A sandbox that takes calls."""

    async def begin(self, setup: Phase | None, agent: Phase) -> PhaseEnd | None:
        """Run the setup and open the sandbox for calls; the setup's end, if there was one.

        `agent` lends its environment, network and user to the calls; its command is not run. After
        `run_agent`, without a setup, it opens the sandbox for calls behind the barrier.
        """
        ...

    async def exec(self, call: ExecCall) -> ExecEnd:
        """Carry out one call. Cancelling ends it, whole, before that is passed on."""
        ...

    async def end_all(self) -> AgentRun:
        """End whatever calls left running, and prove it."""
        ...


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
            name="exec",
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

    async def end_all(self) -> AgentRun:
        """Nothing is left: the end of each call was proven."""
        return AgentRun(setup=self._setup, agent=None)


def read_end(end: PhaseEnd, logs: Path, stream: str, most: int) -> ExecEnd:
    """Join how a call ended with what it said."""
    out, cut_out = read_capped(logs / f"{stream}.stdout", most)
    err, cut_err = read_capped(logs / f"{stream}.stderr", most)
    return ExecEnd(
        exit_status=end.exit_status,
        stdout=out,
        stderr=err,
        timed_out=end.timed_out,
        over_disk=end.over_disk,
        is_cut=cut_out or cut_err,
        seconds=end.seconds,
    )


def read_capped(path: Path, most: int) -> tuple[bytes, bool]:
    """Read a file that we opened for a guest to write, its middle left out where it is long."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= most:
            return file.read(most), False
        head = file.read(most // 2)
        file.seek(size - (most - len(head)))
        return cut(head, file.read(most - len(head)), size - most), True


def cut(head: bytes, tail: bytes, left_out: int) -> bytes:
    """Join both ends of what was too long."""
    return head + f"\n[{left_out} bytes left out here]\n".encode() + tail
