"""What earlier sittings of a run finished and used, counted from what is on disk."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from labrunner.analysis.sums.expense import Timing
from labrunner.analysis.sums.tally import Trial
from labrunner.policy.budget import Spending, limits_of
from labrunner.records.glance import TrialGlance
from labrunner.runner.leftovers.cutoffs import sum_cut_off
from labrunner.runner.leftovers.resumption import Resumption
from labrunner.runner.plan import Plan
from labrunner.store.layout import RunPaths
from labrunner.store.reading.survey import survey
from labrunner.store.writing.writer import RunWriter


def find_finished(paths: RunPaths, writer: RunWriter) -> Iterator[TrialGlance]:
    """The trials that earlier sittings finished."""
    if writer.next_idx == 0 and writer.counts().buffered == 0:
        return
    with survey(paths) as seen:
        yield from seen.trials()


def recount_spending(spending: Spending, plan: Plan, left: Resumption) -> None:
    """Add what earlier sittings of a run, and earlier runs of its lineage, have used; only under a budget.

    Results that are taken over from other lineages cost this one nothing. What was cut off has been paid.
    """
    if not limits_of(plan.experiment.policy.budget):
        return
    for before in chain.from_iterable(plan.earlier.values()):
        spending.add(before.usage, is_graded=before.outcome == "graded")
    for trial, timing in _find_paid(plan):
        *failed, last = timing.attempts
        for attempt in failed:
            spending.add(attempt.usage, is_graded=False)
        spending.add(last.usage, is_graded=trial.outcome == "graded")
        if timing.cut_off_usage:
            spending.add(timing.cut_off_usage, is_graded=False)
    for attempts in left.histories.values():
        for completion in attempts:
            spending.add(completion.timing.usage, is_graded=False)
    for folder in _find_unended(plan, left):
        if used := sum_cut_off([folder]):
            spending.add(used, is_graded=False)


def _find_unended(plan: Plan, left: Resumption) -> Iterator[Path]:
    """Folders of attempts that came to no end, of trials that are not finished and not taken up."""
    with survey(plan.paths) as seen:
        known = {trial.ids.trial_id for trial in seen.trials()}
    known |= {adoption.note.trial_id for adoption in left.adoptions}
    ended = {(each.trial_id, str(each.attempt)) for tried in left.histories.values() for each in tried}
    for folder in plan.paths.trial_folders.glob("*/[!.]*"):
        if folder.parent.name not in known and (folder.parent.name, folder.name) not in ended:
            yield folder


def _find_paid(plan: Plan) -> Iterator[tuple[Trial, Timing]]:
    """Trials whose use counts: those that ran here and, of one's own lineage, those that are taken over."""
    finished: set[int] = set()
    with survey(plan.paths) as seen:
        for trial, timing in seen.finished():
            finished.add(trial.schedule_idx)
            if plan.is_of_lineage or not plan.is_reused(trial.schedule_idx):
                yield trial, timing
    if plan.carry_over is not None and plan.is_of_lineage:
        for rows, _ in plan.carry_over.find_rows(finished.__contains__):
            yield rows.trial, rows.timing
