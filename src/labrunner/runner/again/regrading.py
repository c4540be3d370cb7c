"""Grading kept workspaces again: a new run in which no agent runs.

Rules: the source is only read; each trial's workspace is copied before a grader sees it. A trial whose
workspace was not kept, or whose agent did not come to its end, can't be graded again: it is missing data,
with its reason, never a zero. An agent that ended its own sandbox has failed whatever a grader would say.
With `times` above one each trial is graded that often, as replications, to see whose verdicts differ.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from labrunner.errors import InputError, RunLocked
from labrunner.executor.door import Executor
from labrunner.experiment.digests import digest_experiment
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.hazards import refuse_unheeded_options
from labrunner.experiment.revising.new_policy import change_policy
from labrunner.experiment.revising.regrader import bring_grader
from labrunner.experiment.schedule import Schedule
from labrunner.policy.budget import Budget
from labrunner.records.cause import Cause
from labrunner.records.completion import Failed
from labrunner.records.encoding.ids import make_run_id, make_trial_id
from labrunner.records.rows import TrialRow
from labrunner.runner.again.regradechoice import NOT_CHOSEN, TrialChoice, choose
from labrunner.runner.again.retrying import lineage
from labrunner.runner.newrun import Descent
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reuse.history import encode_earlier, gather_history
from labrunner.runner.reuse.keptwork import KeptWork, KeptWorkExecutor
from labrunner.runner.reuse.regradable import find_work, is_kept, was_spoilt
from labrunner.runner.reuse.reuse import ReusePlan, SlotFinder, open_sources, plan_reuse
from labrunner.runner.sitting.sitting import RunEnd, Watch
from labrunner.runner.start import Beginning, RunOptions, check, launch
from labrunner.sandbox.paths import can_be_carried, works_in_image
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials, read_state
from labrunner.store.rows.single_records import read_run
from labrunner.trial.phases import merged_plan

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
    choice: TrialChoice = field(default_factory=TrialChoice)
    asked: Overrides = field(default_factory=Overrides)
    """What is decided anew of who carries trials out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegradeEnd:
    """How it ended, and whose verdicts differ."""

    end: RunEnd
    not_kept: int
    """Trials whose workspace was not kept."""
    masked: int
    """Trials whose workspace was kept without the secrets that it had when it was first graded."""
    unstable: tuple[str, ...]
    """Trials of the source that were not judged the same every time."""


async def regrade_run(paths: RunPaths, regrading: Regrading, options: RunOptions, watch: Watch) -> RegradeEnd:
    """Grade a run's kept workspaces again, into a new run."""
    if read_state(paths) == "started":
        raise RunLocked(f"{paths.root.name} is running; wait for its end, or stop it")
    old = choose(read_experiment(paths), regrading.choice)
    program = old.variants[0].program
    if program is not None and program.in_process:
        raise InputError(
            str(paths.root),
            "solvers or scorers of this run are Python, and judge more than a workspace; try: lab retry",
        )
    _refuse_system_folders(old)
    experiment = rework(old, regrading)
    refuse_unheeded_options(regrading.asked, experiment.policy.executor.kind)
    await check(experiment, options)
    works = _find_kept(paths, experiment, regrading)
    not_kept = sum(work is NOT_KEPT for work in works.values())
    if not_kept == sum(work is not NOT_CHOSEN for work in works.values()):
        raise InputError(
            str(paths.root),
            "no workspace was kept, so there is nothing to grade; run it with keep: {workspace: always}",
        )
    fronts: list[KeptWorkExecutor] = []

    def stand_in_front(inner: Executor, new: RunPaths) -> Executor:
        fronts.append(KeptWorkExecutor(inner, works.get, new))
        return fronts[0]

    beginning = Beginning(
        experiment=experiment, descent=_descend(paths, experiment, regrading), stand_in_front=stand_in_front
    )
    end = await launch(beginning, _record_source(options, paths, regrading), watch)
    return RegradeEnd(
        end=end,
        not_kept=not_kept,
        masked=len(fronts[0].masked),
        unstable=_unstable(end.paths, regrading.times),
    )


def rework(old: Experiment, regrading: Regrading) -> Experiment:
    """The experiment that a regrading carries out: another grader, more replications, no limits."""
    new = replace(
        bring_grader(old, str(regrading.grader_dir) if regrading.grader_dir is not None else None),
        replications=old.replications * regrading.times,
        policy=replace(
            change_policy(old.policy, regrading.asked),
            replay=None,
            retry_on_error=0,
            budget=Budget(cost_usd=None, tokens=None),
        ),
    )
    # Missing verdicts are data; that there is none at all is not a success.
    planned = len(Schedule.of(new))
    new = replace(new, policy=replace(new.policy, fail_on_error=float(planned - 1)))
    return replace(new, digest=digest_experiment(new))


def _refuse_system_folders(experiment: Experiment) -> None:
    """Refuse where agents worked among the files of their image's system: they can't be put into another."""
    for task in experiment.tasks:
        for variant in experiment.variants:
            workdir = merged_plan(task, variant).workdir
            if works_in_image(workdir) and not can_be_carried(workdir):
                raise InputError(
                    f"task {task.id}",
                    f"its agents worked in {workdir}, where the system of their image lies, and that is not "
                    "kept; run it again with: lab retry",
                )


def _descend(source: RunPaths, experiment: Experiment, regrading: Regrading) -> Descent:
    """Of the source's lineage, with what happened before."""
    return Descent(
        lineage_id=read_run(source).lineage_id,
        recovered_from=str(source.root.resolve()),
        is_regrade=True,
        graded_times=regrading.times,
        tell_earlier=partial(_tell_earlier, source, experiment, regrading),
    )


def _record_source(options: RunOptions, source: RunPaths, regrading: Regrading) -> RunOptions:
    """The options to be recorded: the source's, with the grader that was brought, under a name of its own."""
    old = read_run(source)
    return replace(
        options,
        run_id=options.run_id or make_run_id(f"{old.name}-regrade", datetime.now(UTC)),
        overrides=old.overrides | _brought(regrading),
    )


def _brought(regrading: Regrading) -> dict[str, str]:
    return {} if regrading.grader_dir is None else {"grader_dir": str(regrading.grader_dir.resolve())}


def _tell_earlier(source: RunPaths, experiment: Experiment, regrading: Regrading, run_id: str) -> list[bytes]:
    """What happened to the work that is judged; nothing where each trial is judged several times."""
    if regrading.times > 1:
        return []
    chain = lineage(source, read_run(source).lineage_id)
    return encode_earlier(gather_history(experiment, plan_regrading(experiment, chain, source), run_id))


def plan_regrading(experiment: Experiment, chain: Sequence[RunPaths], source: RunPaths) -> ReusePlan:
    """What a regrading takes of a lineage: no result, only one run's work that can be judged."""
    plan, finder = plan_reuse(experiment, open_sources(chain)), SlotFinder(experiment)
    number = next(n for n, run in enumerate(chain) if run.root.samefile(source.root))
    plan.again = {
        idx: work
        for row in iter_trials(source)
        if not was_spoilt(row)
        and (idx := finder.find(row)) is not None
        and (work := find_work(source, number, row, in_image=finder.is_in_image(idx))) is not None
    }
    for idx in range(len(plan.taken)):
        plan.taken[idx] = 0
    return plan


def _unstable(paths: RunPaths, times: int) -> tuple[str, ...]:
    if times == 1:
        return ()
    verdicts: dict[str, set[str | None]] = defaultdict(set)
    for row in iter_trials(paths):
        original = make_trial_id(row.ids.variant_id, row.ids.task_id, row.ids.repl_idx // times)
        verdicts[original].add(row.verdict)
    return tuple(sorted(trial for trial, seen in verdicts.items() if len(seen) > 1))


def _find_kept(paths: RunPaths, experiment: Experiment, regrading: Regrading) -> dict[str, KeptWork | Failed]:
    """What each trial of the regrading judges, by its id, or why it can't."""
    finder = SlotFinder(read_experiment(paths))
    works = {row.ids.trial_id: _look_at(paths, row, finder) for row in iter_trials(paths)}
    found: dict[str, KeptWork | Failed] = {}
    for task in experiment.tasks:
        for variant in experiment.variants:
            for repl_idx in range(experiment.replications):
                original = make_trial_id(variant.id, task.id, repl_idx // regrading.times)
                trial_id = make_trial_id(variant.id, task.id, repl_idx)
                is_chosen = regrading.choice.takes(original)
                found[trial_id] = works.get(original, NOT_KEPT) if is_chosen else NOT_CHOSEN
    return found


def _look_at(paths: RunPaths, row: TrialRow, finder: SlotFinder) -> KeptWork | Failed:
    idx = finder.find(row)
    if not is_kept(paths, row, in_image=idx is not None and finder.is_in_image(idx)):
        return NOT_KEPT
    agent = row.attempts[-1].agent
    if agent is None:
        return NOT_ENDED
    if was_spoilt(row):
        return Failed(
            cause=row.cause or Cause.RUNNER,
            reason=row.reason or "",
            message=f"its attempt failed ({row.cause}), so there is nothing to judge",
        )
    return KeptWork(
        folder=paths.attempt(row.ids.trial_id, row.attempt),
        agent=agent,
        was_wrapper_killed=row.ended_by == "wrapper_killed",
    )
