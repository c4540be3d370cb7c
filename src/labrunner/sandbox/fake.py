"""A sandbox made of nothing: each phase is a Python function of the caller's, run in this process.

For tests of whatever stands behind the door. It keeps the door's promises as far as a function can:
phases in order, time limits on what can be awaited, logs where they belong, no agent after a failed
setup, nothing left when the context is left.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from labrunner.experiment.resolved import SandboxPlan
from labrunner.sandbox.door import (
    NO_DEMANDS,
    AgentRun,
    AttemptFolders,
    Check,
    Demands,
    GuestPaths,
    Phase,
    PhaseEnd,
    Sandbox,
    SandboxSpec,
)
from labrunner.sandbox.execution import LONGEST_S, ExecCall, ExecEnd, read_end
from labrunner.sandbox.mortal import Mortal, Unfetchable
from labrunner.sandbox.paths import host_paths

Script = Callable[[Phase, AttemptFolders], Awaitable[PhaseEnd] | PhaseEnd]
"""What a phase does. May write to the folders, wait, or raise `SandboxFailed`."""


def succeed(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    """Do nothing, well."""
    del phase, folders
    return PhaseEnd(exit_status=0)


@dataclass(slots=True, kw_only=True)
class FakeSandbox(Unfetchable):
    """One attempt's fake sandbox."""

    spec: SandboxSpec
    script: Script
    barrier: str = "none"
    agent: Phase | None = None
    limits: Mapping[str, float | int | str | bool | None] = field(default_factory=dict)

    async def run_agent(self, setup: Phase | None, agent: Phase) -> AgentRun:
        """Run setup and agent."""
        setup_end = None if setup is None else await self._run(setup)
        if setup_end is not None and setup_end.exit_status != 0:
            return AgentRun(setup=setup_end, agent=None)
        return AgentRun(setup=setup_end, agent=await self._run(agent))

    async def run_grader(self, grader: Phase) -> PhaseEnd:
        """Run the grader."""
        return await self._run(grader)

    async def begin(self, setup: Phase | None, agent: Phase) -> PhaseEnd | None:
        """Run the setup, and take calls from now on."""
        self.agent = agent
        return None if setup is None else await self._run(setup)

    async def exec(self, call: ExecCall) -> ExecEnd:
        """Carry out a call: the script is told its command, and may write to the call's streams."""
        assert self.agent is not None, "a call came before `begin`"
        streams = [self.spec.folders.logs / f"exec.{kind}" for kind in ("stdout", "stderr")]
        for stream in streams:
            stream.write_bytes(b"")
        timeout_s = call.timeout_s or LONGEST_S
        env = {**self.agent.env, **call.env}
        end = await self._run(replace(self.agent, name="exec", argv=call.argv, env=env, timeout_s=timeout_s))
        return read_end(end, self.spec.folders.logs, "exec", call.max_output)

    async def end_all(self) -> AgentRun:
        """Nothing is left."""
        return AgentRun(setup=None, agent=None)

    async def _run(self, phase: Phase) -> PhaseEnd:
        started = time.monotonic()
        limit = asyncio.timeout(phase.timeout_s)
        try:
            async with limit:
                end = self.script(phase, self.spec.folders)
                return await end if inspect.isawaitable(end) else end
        except TimeoutError:
            if not limit.expired():
                raise
            return PhaseEnd(exit_status=None, timed_out=True, seconds=time.monotonic() - started)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeMaker(Mortal):
    """Makes sandboxes that run `script` instead of commands."""

    script: Script = succeed
    checks: tuple[Check, ...] = ()

    def guest_paths(self, folders: AttemptFolders, agent_dir: Path | None) -> GuestPaths:
        """Host paths: there is no inside."""
        return host_paths(folders, agent_dir)

    async def preflight(self, plan: SandboxPlan, demands: Demands = NO_DEMANDS) -> tuple[Check, ...]:
        """Whatever the test wants to hear."""
        del plan, demands
        return self.checks

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Make a fake sandbox."""
        return self._open(spec)

    @asynccontextmanager
    async def _open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        yield FakeSandbox(spec=spec, script=self.script)
