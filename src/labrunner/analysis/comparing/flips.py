"""Tasks that one arm does better than the other, the largest first, each with two trials to look at."""

from collections.abc import Sequence
from dataclasses import dataclass

from labrunner.analysis.comparing.pairing import Arm, PairedTask, Scored
from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell
from labrunner.records.encoding.ids import make_trial_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A task that one side solves and the other does not, or on which they are furthest apart."""

    task_id: str
    baseline: float
    other: float
    difference: float
    baseline_trial: str
    other_trial: str
    """Trials to look at side by side: where verdicts differ, one that passed and one that failed."""


def find_flips(
    baseline: Arm, other: Arm, measure: Measure, scored: Sequence[Scored]
) -> tuple[list[Flip], list[Flip]]:
    """Tasks on which the other arm did better, and those on which it did worse."""
    apart = sorted((one for one in scored if one[1]), key=lambda one: -abs(one[1]))
    flips = [_flip(baseline, other, measure, one) for one in apart]
    is_up = [flip.difference * measure.sign > 0 for flip in flips]
    return (
        [flip for flip, up in zip(flips, is_up, strict=True) if up],
        [flip for flip, up in zip(flips, is_up, strict=True) if not up],
    )


def _flip(baseline: Arm, other: Arm, measure: Measure, scored: Scored) -> Flip:
    task, difference = scored
    before, after = _examples(task, is_up=difference * measure.sign > 0)
    return Flip(
        task_id=task.task_id,
        baseline=measure.mean(task.baseline) or 0.0,
        other=measure.mean(task.other) or 0.0,
        difference=difference,
        baseline_trial=make_trial_id(baseline.variant_id, task.task_id, before),
        other_trial=make_trial_id(other.variant_id, task.task_id, after),
    )


def _examples(task: PairedTask, *, is_up: bool) -> tuple[int, int]:
    """Replications to look at: opposite verdicts where there are any, else the first graded ones."""
    before = task.baseline.first_failed if is_up else task.baseline.first_passed
    after = task.other.first_passed if is_up else task.other.first_failed
    if before is not None and after is not None:
        return before, after
    return _first(task.baseline), _first(task.other)


def _first(cell: Cell) -> int:
    return min(idx for idx in (cell.first_passed, cell.first_failed) if idx is not None)
