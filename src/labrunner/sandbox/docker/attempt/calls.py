"""Calls into an attempt's container while its solver works outside.

The container's agent is an idle process, so that setup, limits, disk guard and barrier are those of every
attempt; calls run beside it. Ending the idle process brings the barrier about, which ends everything else.
A call says itself that it has ended, on both of its streams: what it left running may hold them open. Each
call carries a mark in its environment, by which its whole tree is found and killed when its time is up; a
process that takes its mark off lives until the barrier.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from labrunner.errors import SandboxFailed
from labrunner.records.facts.exit_status import KILLED
from labrunner.sandbox.docker.attempt.agent_side import AgentSide
from labrunner.sandbox.docker.attempt.stage import Stage
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.terminal import carry_terminal
from labrunner.sandbox.docker.wrapper.capture import Capture
from labrunner.sandbox.docker.wrapper.scratch import make_scratch
from labrunner.sandbox.docker.wrapper.script import Start, phase_env
from labrunner.sandbox.door import AgentRun, Phase, PhaseEnd, PhaseName
from labrunner.sandbox.execution import LONGEST_S, ExecCall, ExecEnd
from labrunner.sandbox.paths import AGENTLAB
from labrunner.sandbox.terminals.person import Person, TerminalCall

MARK: Final = "AGENTLAB_CALL"
IDLE: Final = ("/bin/sh", "-c", "while :; do sleep 3600; done")
IDLE_S: Final = 7 * 24 * 3600.0
LOOK_S: Final = 0.02
KILL_S: Final = 30.0
DISMISSED_S: Final = 30.0
READY_S: Final = 60.0
_RUN: Final = (
    'm=$1 i=$2 d=$3; shift 3; cd -- "$d" && "$@" <"$i"; s=$?; printf "\\n%s %d\\n" "$m" "$s"; '
    'printf "\\n%s %d\\n" "$m" "$s" >&2'
)
_KILL: Final = (
    'n=0; while [ "$n" -lt 100 ]; do f=; for p in /proc/[0-9]*; do '
    'if tr "\\0" "\\n" <"$p/environ" 2>/dev/null | grep -qx "$1"; then kill -9 "${p#/proc/}" && f=1; fi; '
    'done 2>/dev/null; [ -z "$f" ] && exit 0; n=$((n+1)); done; exit 1'
)


@dataclass(slots=True, kw_only=True)
class DockerCalls:
    """One attempt's calls."""

    stage: Stage
    _agent: Phase | None = None
    _idle_mark: str = ""
    _scratch: str = ""
    _part: asyncio.Future[AgentRun] | None = None
    _is_behind: bool = False
    """The barrier has been crossed: calls are scorers'."""
    _count: int = 0
    _door: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self, setup: Phase | None, agent: Phase) -> PhaseEnd | None:
        """Start the container with an idle agent; return when its setup has ended."""
        self._agent = agent
        with SandboxFailed.during("scratch", "making folders for calls"):
            self._scratch = f"{AGENTLAB}/scratch/{make_scratch(self.stage.spec.folders.scratch, 'exec')}"
        if self.stage.record is not None:
            self._is_behind = True
            return None
        self._idle_mark = secrets.token_hex(16)
        env = {**agent.env, MARK: self._idle_mark}
        idle = replace(agent, name="agent", argv=IDLE, env=env, timeout_s=IDLE_S, stdin=None)
        # Awaited by `end_all`, or ended by `close`.
        self._part = asyncio.ensure_future(AgentSide(stage=self.stage).run(setup, idle))
        while not self._part.done() and not self._is_open():
            await asyncio.wait([self._part], timeout=LOOK_S)
        if self._part.done():
            return self._part.result().setup
        return None if setup is None else PhaseEnd(exit_status=0)

    async def exec(self, call: ExecCall) -> ExecEnd:
        """Carry out one call."""
        if self._agent is None:
            raise SandboxFailed("not_begun", "a call came before the sandbox was opened for calls")
        if self._is_over():
            return self._ended_early(0.0)
        if self._is_behind:
            await self._stand_ready()
        self._count += 1
        mark, started = secrets.token_hex(16), time.monotonic()
        user = self.stage.user(replace(self._agent, user=call.user or self._agent.user))
        out, err = Capture(call.max_output, mark), Capture(call.max_output, mark)
        timed_out = False
        try:
            async with asyncio.timeout(call.timeout_s or LONGEST_S):
                await self._follow(self._config(call, mark, user), out, err)
        except TimeoutError:
            timed_out = True
            await self._kill(mark, user)
        except asyncio.CancelledError:
            await self._kill(mark, user)
            raise
        finally:
            self._stdin(self._count).unlink(missing_ok=True)
        seconds = time.monotonic() - started
        if not timed_out and err.status is None:
            return self._ended_early(seconds)
        return ExecEnd(
            exit_status=None if timed_out else err.status,
            stdout=out.data,
            stderr=err.data,
            timed_out=timed_out,
            is_cut=out.is_cut or err.is_cut,
            seconds=seconds,
        )

    async def attend(self, call: TerminalCall, person: Person) -> ExecEnd:
        """Run a command at a terminal, beside the idle agent."""
        if self._agent is None:
            raise SandboxFailed("not_begun", "a call came before the sandbox was opened for calls")
        if self._is_over():
            return self._ended_early(0.0)
        mark, started, user = secrets.token_hex(16), time.monotonic(), self._user()
        config = {**self._around(call.env, mark, user), "Cmd": list(call.argv)}
        try:
            status = await carry_terminal(self._engine, self.stage.container.id, config, person)
        except asyncio.CancelledError:
            await self._kill(mark, user)
            raise
        seconds = time.monotonic() - started
        return self._ended_early(seconds) if status is None else ExecEnd(exit_status=status, seconds=seconds)

    async def end_all(self) -> AgentRun:
        """End the idle agent, and wait until the barrier is proven."""
        if self._part is None:
            record = self.stage.record
            return record.run if record is not None else AgentRun(setup=None, agent=None)
        run = await self._dismiss(self._part)
        self._is_behind = True
        # How the idle process ended says nothing about anybody.
        agent = run.agent
        if agent is not None and not (agent.oom_killed or agent.over_disk):
            run = replace(run, agent=PhaseEnd(exit_status=0, seconds=agent.seconds, usage=agent.usage))
        return run

    async def _dismiss(self, part: asyncio.Future[AgentRun]) -> AgentRun:
        """End the idle agent, or, if what the calls have left does not let it end, its container."""
        if not part.done():
            with suppress(SandboxFailed):
                await self._kill(self._idle_mark, self._user())
            await asyncio.wait([part], timeout=DISMISSED_S)
        if part.done():
            return part.result()
        part.cancel()
        await asyncio.wait([part])
        await self.stage.end()
        return await AgentSide(stage=self.stage).conclude(AgentRun(setup=None, agent=PhaseEnd(exit_status=0)))

    async def _stand_ready(self) -> None:
        """Have a container for calls behind the barrier: one that has ended is started again, or renewed."""
        async with self._door:
            assert self._agent is not None
            if self.stage.must_renew:
                await self.stage.renew(self._agent)
            elif self.stage.is_alive:
                return
            else:
                await self.stage.start_again(self._agent)
            async with asyncio.timeout(READY_S):
                await self.stage.container.until(lambda note: note.is_certain)

    async def close(self) -> None:
        """Let go of an agent's part that nobody waits for any more."""
        if self._part is None:
            return
        self._part.cancel()
        with suppress(asyncio.CancelledError, SandboxFailed):
            await self._part

    async def _follow(self, config: dict[str, Any], out: Capture, err: Capture) -> None:
        """Read a call's streams until both have said that it ended, or there are none any more."""
        stream = await self._engine.call(self.stage.container.id, config)
        try:
            while not (out.is_over and err.is_over):
                message = await stream.read_out()
                if message is None:
                    return
                (out if message.stream == 1 else err).add(message.data)
        except OSError:
            return
        finally:
            stream.close()

    def _config(self, call: ExecCall, mark: str, user: str) -> dict[str, Any]:
        given = "/dev/null"
        if call.stdin is not None:
            path = self._stdin(self._count)
            path.write_bytes(call.stdin)
            path.chmod(0o644)
            given = f"{AGENTLAB}/in/{path.name}"
        return {
            **self._around(call.env, mark, user),
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": ["/bin/sh", "-c", _RUN, "sh", mark, given, call.cwd or ".", *call.argv],
        }

    def _around(self, own: Mapping[str, str], mark: str, user: str) -> dict[str, Any]:
        """Environment, user and folder of a call."""
        assert self._agent is not None
        name: PhaseName = "grader" if self._agent.name == "grader" else "exec"
        phase = replace(self._agent, name=name, env={**self._agent.env, **own, MARK: mark})
        env = phase_env(self.stage.basics, Start(phase=phase, user=user, scratch=self._scratch))
        return {
            "Env": [f"{name}={value}" for name, value in env.items()],
            "User": user or "0",
            "WorkingDir": self.stage.basics.workdir,
        }

    async def _kill(self, mark: str, user: str) -> None:
        """Kill everything that carries a mark."""
        config = {
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": ["/bin/sh", "-c", _KILL, "sh", f"{MARK}={mark}"],
            "User": user or "0",
        }
        try:
            async with asyncio.timeout(KILL_S):
                await self._follow(config, Capture(4096, ""), Capture(4096, ""))
        except TimeoutError as error:
            raise SandboxFailed("barrier_failed", "processes of a call did not end when killed") from error

    def _ended_early(self, seconds: float) -> ExecEnd:
        """The container, or the agent's part of it, is over: whatever ran in it has ended."""
        run = self._part.result() if self._part is not None and self._part.done() else None
        over_disk = run is not None and run.agent is not None and run.agent.over_disk
        told = b"the sandbox was ended from within\n"
        return ExecEnd(exit_status=KILLED, stderr=told, over_disk=over_disk, seconds=seconds)

    def _is_open(self) -> bool:
        return self.stage.container.note().phase == "agent"

    def _is_over(self) -> bool:
        """Whether the agent's part has ended before anybody asked for it."""
        return self._part is not None and self._part.done() and not self._is_behind

    def _user(self) -> str:
        assert self._agent is not None
        return self.stage.user(self._agent)

    def _stdin(self, number: int) -> Path:
        return self.stage.spec.folders.inputs / f".stdin-{number}"

    @property
    def _engine(self) -> Engine:
        return self.stage.engine
