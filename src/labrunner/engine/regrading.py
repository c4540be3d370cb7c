"""Grading kept workspaces again: a new run in which no agent runs.

Rules: the source is only read; each trial's workspace is copied before a grader sees it. A trial whose
workspace was not kept, or whose agent did not come to its end, can't be graded again: it is missing data,
with its reason, never a zero. An agent that ended its own sandbox has failed whatever a grader would say.
With `times` above one each trial is graded that often, as replications, to see whose verdicts differ.
"""

import asyncio
import shutil
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from labrunner.engine.lookup import read_experiment
from labrunner.engine.resumption import stand_at_barrier
from labrunner.engine.run import (
    RunOptions,
    make_executor,
    make_plan,
    make_record,
    preflight,
    refuse_failed,
    sit_down,
)
from labrunner.engine.session import RunEnd, Watch
from labrunner.errors import InputError, RunLocked
from labrunner.executor.door import Executor, Leavings
from labrunner.experiment import codec
from labrunner.experiment.digests import digest_experiment, digest_task
from labrunner.experiment.folders import digest_folder
from labrunner.experiment.model import Budget, Experiment, Folder, Task
from labrunner.experiment.schedule import Schedule
from labrunner.records.canonical import stamp
from labrunner.records.cause import Cause
from labrunner.records.completion import AttemptEnd, AttemptTiming, BarrierNote, Completion, Failed, PhaseFact
from labrunner.records.ids import make_run_id, make_trial_id
from labrunner.records.rows import TrialRow
from labrunner.sandbox.door import Check, Survivor
from labrunner.sandbox.paths import AGENTLAB, is_of_attempt
from labrunner.store.create import create_run
from labrunner.store.layout import RunPaths
from labrunner.store.reading import iter_trials, read_state
from labrunner.trial.assignment import Assignment, Notes
from labrunner.trial.classification import fail_ungraded
from labrunner.trial.ledger import complete
from labrunner.trial.phases import merged_plan
from labrunner.trial.preparation import set_aside

COPIED = ("in", "workspace", "out", "state")
NOT_KEPT = Failed(
    cause=Cause.SETUP,
    reason="workspace_not_kept",
    message="its workspace was not kept (keep.workspace), so it can't be graded again",
)
NOT_ENDED = Failed(
    cause=Cause.SETUP,
    reason="agent_not_ended",
    message="its agent did not come to its end, so there is nothing to grade",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrading:
    """How a run is graded again."""

    grader_dir: Path | None = None
    """Another grader's folder; None for the run's own."""
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegradeEnd:
    """How it ended, and whose verdicts differ."""

    end: RunEnd
    not_kept: int
    """Trials whose workspace was not kept."""
    unstable: tuple[str, ...]
    """Trials of the source that were not judged the same every time."""


async def regrade_run(paths: RunPaths, regrading: Regrading, options: RunOptions, watch: Watch) -> RegradeEnd:
    """Grade a run's kept workspaces again, into a new run."""
    if read_state(paths) == "started":
        raise RunLocked(f"{paths.root.name} is running; wait for its end, or stop it")
    old = read_experiment(paths)
    program = old.variants[0].program
    if program is not None and program.in_process:
        raise InputError(
            str(paths.root),
            "solvers or scorers of this run are Python, and judge more than a workspace; try: lab retry",
        )
    _refuse_workdirs(old)
    experiment = rework(old, regrading)
    checks = await preflight(experiment, options)
    if options.on_checks is not None:
        options.on_checks(checks)
    refuse_failed(checks)
    kept = {row.ids.trial_id: row for row in iter_trials(paths) if _is_kept(paths, row)}
    if not kept:
        raise InputError(
            str(paths.root),
            "no workspace was kept, so there is nothing to grade; run it with keep: {workspace: always}",
        )
    new = _create(paths, experiment, options)
    plan = make_plan(experiment, new, options, run_id=new.root.name)
    inner = make_executor(experiment, options, new.root.name, new.trial_folders)
    executor = RegradeExecutor(inner, _Source(paths, old, kept, regrading.times), new)
    end = await sit_down(plan, new, executor, watch)
    return RegradeEnd(end=end, not_kept=executor.not_kept, unstable=_unstable(new, regrading.times))


def rework(old: Experiment, regrading: Regrading) -> Experiment:
    """The experiment that a regrading carries out: another grader, more replications, no limits."""
    folder = None
    if regrading.grader_dir is not None:
        if not regrading.grader_dir.is_dir():
            raise InputError(str(regrading.grader_dir), "is not a folder; --grader takes a grader's folder")
        place = regrading.grader_dir.resolve()
        folder = Folder(path=str(place), digest=digest_folder(place))
    tasks = tuple(_with_grader(task, folder) for task in old.tasks) if folder else old.tasks
    new = replace(
        old,
        tasks=tasks,
        replications=old.replications * regrading.times,
        policy=replace(
            old.policy, fail_on_error=False, retry_on_error=0, budget=Budget(cost_usd=None, tokens=None)
        ),
    )
    return replace(new, digest=digest_experiment(new))


def _with_grader(task: Task, folder: Folder) -> Task:
    new = replace(task, grader=replace(task.grader, dir=folder))
    return replace(new, digest=digest_task(new))


def _refuse_workdirs(experiment: Experiment) -> None:
    """Refuse where agents worked in a folder of their image: it went with their containers."""
    for task in experiment.tasks:
        for variant in experiment.variants:
            workdir = merged_plan(task, variant).workdir
            if workdir is not None and not is_of_attempt(workdir):
                raise InputError(
                    f"task {task.id}",
                    f"its agents worked in {workdir} of their image, and only {AGENTLAB}/workspace was kept; "
                    "run it again with: lab retry",
                )


def _is_kept(paths: RunPaths, row: TrialRow) -> bool:
    return bool(row.attempts) and (paths.attempt(row.ids.trial_id, row.attempt) / "workspace").is_dir()


def _create(source: RunPaths, experiment: Experiment, options: RunOptions) -> RunPaths:
    if options.run_id is None:
        options = replace(options, run_id=make_run_id(f"{experiment.name}-regrade", datetime.now(UTC)))
    record = msgspec.structs.replace(
        make_record(experiment, options), recovered_from=str(source.root.resolve()), is_regrade=True
    )
    return create_run(
        options.runs_dir, record, codec.task_lines(experiment), Schedule.of(experiment).lines(experiment)
    )


def _unstable(paths: RunPaths, times: int) -> tuple[str, ...]:
    if times == 1:
        return ()
    verdicts: dict[str, set[str | None]] = defaultdict(set)
    for row in iter_trials(paths):
        original = make_trial_id(row.ids.variant_id, row.ids.task_id, row.ids.repl_idx // times)
        verdicts[original].add(row.verdict)
    return tuple(sorted(trial for trial, seen in verdicts.items() if len(seen) > 1))


@dataclass(frozen=True, slots=True)
class _Source:
    """Where kept workspaces lie."""

    paths: RunPaths
    experiment: Experiment
    kept: dict[str, TrialRow]
    times: int

    def find(self, assignment: Assignment) -> TrialRow | None:
        """The trial whose workspace an assignment grades."""
        slot = assignment.slot
        variant = self.experiment.variants[slot.variant_idx].id
        task = self.experiment.tasks[slot.task_idx].id
        return self.kept.get(make_trial_id(variant, task, slot.repl_idx // self.times))


class RegradeExecutor:
    """Hands each attempt a copy of what an agent left, and lets only its grader run."""

    def __init__(self, inner: Executor, source: _Source, paths: RunPaths) -> None:
        """Stand in front of the executor that runs graders."""
        self._inner = inner
        self._source = source
        self._paths = paths
        self.not_kept = 0

    async def preflight(self) -> tuple[Check, ...]:
        """What the graders need."""
        return await self._inner.preflight()

    def outlives_runner(self, assignment: Assignment) -> bool:
        """A regrading is begun anew, not taken up."""
        del assignment
        return False

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Grade a copy of what the agent of an earlier run left."""
        del survivor
        row = self._source.find(assignment)
        if row is None:
            self.not_kept += 1
            return _complete(assignment, NOT_KEPT)
        agent = row.attempts[-1].agent
        if agent is None:
            return _complete(assignment, NOT_ENDED)
        await asyncio.to_thread(self._copy, row, assignment)
        if row.ended_by == "wrapper_killed":
            return _complete(assignment, fail_ungraded("wrapper_killed"), agent)
        done = await self._inner.carry_out(
            assignment, notes, stand_at_barrier(assignment, BarrierNote(agent=agent))
        )
        # Nobody died, and no agent ran: readers are to count neither a crash nor what the agent had used.
        timing = msgspec.structs.replace(done.timing, adopted=False, usage={})
        return msgspec.structs.replace(done, timing=timing)

    async def release(self, assignment: Assignment, drop: Leavings) -> None:
        """As the policy says."""
        await self._inner.release(assignment, drop)

    async def survivors(self) -> tuple[Survivor, ...]:
        """Nothing is taken up."""
        return ()

    async def reap(self, keep: frozenset[str]) -> int:
        """Whatever graders left."""
        return await self._inner.reap(keep)

    async def close(self) -> None:
        """Close what stands behind."""
        await self._inner.close()

    def _copy(self, row: TrialRow, assignment: Assignment) -> None:
        source = self._source.paths.attempt(row.ids.trial_id, row.attempt)
        target = self._paths.attempt(assignment.trial_id, assignment.attempt)
        set_aside(target)
        for name in COPIED:
            if (source / name).is_dir():
                shutil.copytree(source / name, target / name, symlinks=True)


def _complete(assignment: Assignment, end: AttemptEnd, agent: PhaseFact | None = None) -> Completion:
    """The completion of an attempt that needs no sandbox."""
    now = stamp(datetime.now(UTC))
    timing = AttemptTiming(
        attempt=assignment.attempt,
        started_at=now,
        ended_at=now,
        host="",
        sandbox="none",
        message=end.message if isinstance(end, Failed) else None,
    )
    return msgspec.structs.replace(complete(assignment, end, timing), agent=agent)
