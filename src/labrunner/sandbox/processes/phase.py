"""One phase of an attempt, from opened logs to proven end: the same for every sandbox of processes.

Rules: the time limit and the disk guard end the whole tree; so does cancelling. A `PhaseEnd` is returned
only when nothing of the tree is left. Who ended it is told by what happened first, not by exit statuses.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from labrunner.errors import SandboxFailed
from labrunner.sandbox.door import AgentRun, AttemptFolders, Phase, PhaseEnd, SandboxSpec
from labrunner.sandbox.processes.disk import DiskGuard
from labrunner.sandbox.processes.enforcement import Enforcement
from labrunner.sandbox.processes.warden_client import ENDS_WITHIN_S, LaunchReport, LaunchRequest, Tree, warden


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A phase's private folders, fresh and empty."""

    home: Path
    tmp: Path
    is_there: bool = False
    """Whether they have been made; else the phase's keeper makes them."""

    @property
    def missing(self) -> tuple[str, ...]:
        """What the keeper has to make."""
        return () if self.is_there else (str(self.home), str(self.tmp))


def choose_scratch(folders: AttemptFolders, name: str) -> Scratch:
    """Choose HOME and TMPDIR that no phase has had before."""
    for number in range(1, 1000):
        prefix = name if number == 1 else f"{name}-{number}"
        scratch = Scratch(home=folders.scratch / f"{prefix}-home", tmp=folders.scratch / f"{prefix}-tmp")
        if not os.path.lexists(scratch.home):
            return scratch
    raise SandboxFailed("scratch", f"choosing scratch folders below {folders.scratch}: too many are there")


def make_scratch(folders: AttemptFolders, name: str) -> Scratch:
    """Choose the folders, and make them here: for several commands, none of which is the first."""
    scratch = choose_scratch(folders, name)
    with SandboxFailed.during("scratch", f"making {scratch.home} and {scratch.tmp}"):
        scratch.home.mkdir(mode=0o700)
        scratch.tmp.mkdir(mode=0o700)
    return replace(scratch, is_there=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCommand:
    """What is really started for a phase."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    folders: Sequence[str] = ()
    """To be made for it."""
    fds: Sequence[int] = ()
    """Given to it as 3, 4, 5, …; they stay the caller's to close."""
    admit: Callable[[], Awaitable[None]] | None = None
    """Called once it was started: the command itself waits for it. Raises SandboxFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A phase's end, with what the sandbox itself may want to judge by."""

    end: PhaseEnd
    report: LaunchReport


@dataclass(slots=True, kw_only=True)
class Watch:
    """Ends a tree for time or disk, and remembers why."""

    tree: Tree
    why: str | None = field(default=None, init=False)
    patience: asyncio.Timeout = field(init=False)

    def end(self, why: str) -> None:
        """End the tree; from now on its report is due soon."""
        if self.why is None:
            self.why = why
            self.tree.end()
            self.patience.reschedule(asyncio.get_running_loop().time() + ENDS_WITHIN_S)

    async def wait(self, timeout_s: float) -> tuple[LaunchReport, int]:
        """Wait for the tree's report, and how often memory ran out."""
        timer = asyncio.get_running_loop().call_later(timeout_s, self.end, "time")
        try:
            async with asyncio.timeout(None) as self.patience:
                return await self.tree.wait()
        except TimeoutError as error:
            raise SandboxFailed("barrier_failed", "processes of the phase did not end when killed") from error
        finally:
            timer.cancel()


@dataclass(slots=True)
class _Beside:
    """What goes on beside a phase."""

    failure: Exception | None = None

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def admit(self, watch: Watch, admit: Callable[[], Awaitable[None]]) -> None:
        """Let the command begin; where that can't be, end it unbegun."""
        try:
            await admit()
        except Exception as failure:  # noqa: BLE001 - raised once the command, which waits for us, is gone
            self.failure = failure
            watch.end("admission")

    async def halt(self, watch: Watch, halt: asyncio.Event) -> None:
        await halt.wait()
        watch.end("halt")


@asynccontextmanager
async def _beside(
    watch: Watch, halt: asyncio.Event | None, admit: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[_Beside]:
    """Let a phase begin, and end it early, while it is waited for."""
    beside = _Beside()
    works = [] if admit is None else [beside.admit(watch, admit)]
    works += [] if halt is None else [beside.halt(watch, halt)]
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield beside
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRunner:
    """Carries out an attempt's phases within its limits."""

    spec: SandboxSpec
    enforcement: Enforcement

    async def run(self, phase: Phase, command: PhaseCommand) -> Finished:
        """Carry out one phase."""
        folders = self.spec.folders
        watched = (folders.workspace, folders.out, folders.state, folders.logs, folders.scratch)
        watch = Watch(tree=await self._launch(phase, command, measured=watched))
        guard = DiskGuard(
            folders=watched,
            share=self.enforcement.disk,
            # A grader judges what an agent left, over its limit or not.
            beyond_first_walk=phase.name == "grader",
            on_over=lambda: watch.end("disk"),
        )
        guard.start()
        try:
            async with _beside(watch, phase.halt, command.admit) as beside:
                report, oom_kills = await watch.wait(phase.timeout_s)
        finally:
            guard.stop()
        beside.raise_failure()
        if report.trouble:
            with SandboxFailed.during("launch", f"starting the {phase.name}: {report.trouble}"):
                raise OSError(report.errno, os.strerror(report.errno))
        if report.left:
            raise SandboxFailed(
                "barrier_failed", f"{report.left} processes of the {phase.name} can't be ended"
            )
        over_disk = guard.over if phase.name != "agent" else await guard.check(report.disk)
        guard.refuse_full()
        end = judge(report, watch.why, oom_killed=oom_kills > 0, over_disk=over_disk)
        return Finished(end=end, report=report)

    async def _launch(self, phase: Phase, command: PhaseCommand, measured: Sequence[Path]) -> Tree:
        logs = f"{self.spec.folders.logs}/{phase.stream or phase.name}"
        request = LaunchRequest(
            argv=command.argv,
            env=command.env,
            cwd=command.cwd,
            streams=(str(phase.stdin or os.devnull), f"{logs}.stdout", f"{logs}.stderr"),
            folders=command.folders,
            measured=[str(folder) for folder in measured] if phase.name == "agent" else (),
            rlimits=self.enforcement.rlimits,
        )
        return await warden.launch(request, command.fds, self.enforcement.group)


async def run_in_order(
    run: Callable[[Phase], Awaitable[Finished]], setup: Phase | None, agent: Phase
) -> AgentRun:
    """Run setup, and the agent when setup went well. Each one's end is a barrier."""
    prepared = None if setup is None else (await run(setup)).end
    if prepared is not None and prepared.exit_status != 0:
        return AgentRun(setup=prepared, agent=None)
    finished = await run(agent)
    return AgentRun(setup=prepared, agent=finished.end, barrier_s=finished.report.barrier_s)


def judge(report: LaunchReport, why: str | None, *, oom_killed: bool, over_disk: bool) -> PhaseEnd:
    """Say how a phase ended."""
    ended_by_us = report.told and why is not None
    return PhaseEnd(
        exit_status=None if ended_by_us else report.status,
        timed_out=ended_by_us and why == "time",
        oom_killed=oom_killed,
        over_disk=over_disk,
        seconds=report.seconds,
        usage={"cpu_s": report.cpu_s, "max_rss_mb": report.max_rss_mb},
    )
