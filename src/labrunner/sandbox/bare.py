"""Bare processes: no isolation at all, for trusted agents and for tests.

Each phase is a session of its own under a keeper (`labrunner.sandbox.processes.warden`), which ends whatever
the phase started and signals nothing else. There is no mount namespace: paths inside are paths of the host.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import SandboxPlan
from labrunner.sandbox.door import (
    NO_DEMANDS,
    AttemptFolders,
    Check,
    Demands,
    GuestPaths,
    Phase,
    Reach,
    Sandbox,
    SandboxMaker,
    SandboxSpec,
)
from labrunner.sandbox.kind import SandboxKind
from labrunner.sandbox.mortal import Mortal
from labrunner.sandbox.paths import host_paths
from labrunner.sandbox.processes.cgroup import control_groups
from labrunner.sandbox.processes.enforcement import CONTROLLER_OF, MIB, Enforcement, check_limits, enforce
from labrunner.sandbox.processes.launched import LaunchedSandbox
from labrunner.sandbox.processes.phase import Finished, PhaseCommand, PhaseRunner, Scratch

KEEPER_PROCESSES = 1
REACH = Reach(way="loopback")
SMALLEST_DATA_LIMIT_MB = 64
"""The keeper lives under the limit that it lends; it needs about a tenth of this."""


def enforcement(plan: SandboxPlan) -> Enforcement:
    """Limits by prlimit; by a control group only where one was asked for that prlimit can't hold."""
    groups = control_groups()
    available = frozenset(groups.parents) if groups is not None else frozenset()
    asked = frozenset(name for name in plan.asked if name in CONTROLLER_OF)
    found = enforce(plan, available, by_group=asked, overhead=KEEPER_PROCESSES)
    if found.limits["memory_mb"] is not None:
        return found
    data = max(plan.memory_mb, SMALLEST_DATA_LIMIT_MB) * MIB
    return replace(
        found,
        rlimits={**found.rlimits, "RLIMIT_DATA": data},
        limits={**found.limits, "memory_mb": plan.memory_mb, "memory_scope": "process"},
    )


@dataclass(frozen=True, kw_only=True)
class ProcessSandbox(LaunchedSandbox):
    """One attempt's processes."""

    runner: PhaseRunner
    limits: Mapping[str, float | int | str | bool | None]
    barrier: str = "process_tree"
    reach: Reach = REACH

    async def launch(self, phase: Phase, scratch: Scratch) -> Finished:
        """Carry out one phase as a session of its own."""
        if phase.user is not None:
            raise SandboxFailed(
                "user", "the process sandbox can't start commands as another user; drop `user`"
            )
        if phase.network.mode == "allow" and phase.doors is None:
            raise SandboxFailed("network", "the process sandbox can't keep a list of allowed hosts")
        if phase.doors is not None:
            await phase.doors.open(None)
        cwd = str(self.spec.folders.workspace)
        env = {**phase.env, "HOME": str(scratch.home), "TMPDIR": str(scratch.tmp), "PWD": cwd}
        command = PhaseCommand(argv=phase.argv, env=env, cwd=cwd, folders=scratch.missing)
        return await self.runner.run(phase, command)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMaker(Mortal):
    """Makes sandboxes of bare processes."""

    def guest_paths(self, folders: AttemptFolders, agent_dir: Path | None) -> GuestPaths:
        """Host paths: there is no inside."""
        return host_paths(folders, agent_dir)

    async def preflight(self, plan: SandboxPlan, demands: Demands = NO_DEMANDS) -> tuple[Check, ...]:
        """Start one command, and see that every limit that was asked for can be held."""
        from labrunner.sandbox.bubblewrap.launch_check import check_fields, try_launch

        advice = "bare processes have no control group here"
        return (
            *check_fields(plan, demands, is_bare=True),
            await try_launch(self, plan),
            *check_limits(plan, enforcement(plan).limits, advice),
        )

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Make a sandbox for one attempt."""
        return self._open(spec)

    @asynccontextmanager
    async def _open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        found = enforcement(spec.plan)
        runner = PhaseRunner(spec=spec, enforcement=found)
        yield ProcessSandbox(spec=spec, runner=runner, limits=found.limits)


def _make(*, anew: bool) -> SandboxMaker:
    del anew  # nothing is ever remembered
    return ProcessMaker()


KIND: Final = SandboxKind(make=_make, isolates_network=False, is_isolated=False)
