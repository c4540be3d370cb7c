"""Is the other arm better than the baseline, by how much, how sure, and could errors or retries have bent it?

Rules: arms are compared task by task. A conclusion is told only when it would be the same however the
errored trials had ended; otherwise it is undecided because of errors, which is not the same as no difference.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from labrunner.analysis.interval import Interval, TaskMean, mean_interval
from labrunner.analysis.measure import Measure, average, choose_measure
from labrunner.analysis.pairing import (
    Arm,
    Dropped,
    PairedTask,
    Pairing,
    Scored,
    differences,
    extreme_differences,
    pair_up,
    sum_by_unit,
)
from labrunner.analysis.permutation import PValue, adjust_holm, mcnemar, sign_flip
from labrunner.analysis.tally import Cell
from labrunner.analysis.variance import ALPHA, detectable
from labrunner.records.ids import make_trial_id

FLIPS: Final = 10
Conclusion = Literal[
    "better", "worse", "no difference shown", "undecided because of errors", "not enough data"
]
_Finding = Literal["better", "worse", "no difference shown"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The difference with errored (or retried) trials scored for the baseline, and for the other arm."""

    trials: int
    low: float
    high: float
    p_low: float | None
    p_high: float | None
    """p-values of these differences; None for retries, whose effect is judged by the sign alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two arms, with everything needed to judge what was found."""

    baseline: str
    other: str
    measure: str
    tasks: int
    """Tasks graded on both sides: the n behind the difference."""
    units: int
    unit: str
    baseline_mean: float | None
    other_mean: float | None
    difference: float | None
    interval: Interval | None
    p: PValue | None
    p_adjusted: float | None
    """Holm's adjustment over `family` comparisons."""
    family: int
    wins: int
    ties: int
    losses: int
    up: tuple[Flip, ...]
    down: tuple[Flip, ...]
    dropped: tuple[Dropped, ...]
    detectable: float | None
    """The difference that this many tasks and replications would show with 80% power."""
    errors: Range | None
    """None when nothing errored, or when the measure has no bounds."""
    has_unbounded_errors: bool
    """Whether trials errored on a scale without bounds, so that nothing bounds their effect."""
    retries: Range | None
    conclusion: Conclusion


def compare_all(pairs: Sequence[tuple[Arm, Arm]]) -> tuple[Comparison, ...]:
    """Compare (baseline, other) pairs as one family."""
    found = [_compare(baseline, other) for baseline, other in pairs]
    adjusted = _adjust(found, lambda one: one.p.value if one.p else None)
    at_low = _adjust(found, lambda one: one.errors.p_low if one.errors else _value(one.p))
    at_high = _adjust(found, lambda one: one.errors.p_high if one.errors else _value(one.p))
    return tuple(
        replace(one, p_adjusted=p, family=len(found), conclusion=_conclude(one, p, low, high))
        for one, p, low, high in zip(found, adjusted, at_low, at_high, strict=True)
    )


def is_conclusion_safe_from_retries(comparison: Comparison) -> bool:
    """Whether the difference keeps its sign however the retried trials are scored."""
    retries, difference = comparison.retries, comparison.difference
    if retries is None or not difference:
        return True
    return (retries.low > 0) if difference > 0 else (retries.high < 0)


def _compare(baseline: Arm, other: Arm) -> Comparison:
    measure, pairing = choose_measure(baseline.tally, other.tally), pair_up(baseline, other)
    scored = differences(pairing, measure)
    interval, p = _interval(scored, measure), _p_value(pairing, scored, measure)
    errors = _count(pairing, lambda cell: cell.errors)
    up = sorted((one for one in scored if one[1] > 0), key=lambda one: -one[1])
    down = sorted((one for one in scored if one[1] < 0), key=lambda one: one[1])
    error = None if interval is None else interval.standard_error
    return Comparison(
        baseline=baseline.name,
        other=other.name,
        measure=measure.name,
        tasks=len(scored),
        units=len(sum_by_unit(scored)),
        unit=pairing.unit,
        baseline_mean=average(measure.mean(task.baseline) for task, _ in scored),
        other_mean=average(measure.mean(task.other) for task, _ in scored),
        difference=average(difference for _, difference in scored),
        interval=interval,
        p=p,
        p_adjusted=None,
        family=1,
        wins=len(up),
        ties=len(scored) - len(up) - len(down),
        losses=len(down),
        up=tuple(_flip(baseline, other, measure, one) for one in up[:FLIPS]),
        down=tuple(_flip(baseline, other, measure, one) for one in down[:FLIPS]),
        dropped=pairing.dropped,
        detectable=None if error is None else detectable(error),
        errors=_range(pairing, measure, errors, of_errors=True),
        has_unbounded_errors=bool(errors) and not measure.is_bounded,
        retries=_range(
            pairing, measure, _count(pairing, lambda cell: cell.retried_graded + cell.retried_errors)
        ),
        conclusion="undecided because of errors" if _could_be_enough(pairing) else "not enough data",
    )


def _could_be_enough(pairing: Pairing) -> bool:
    """Whether errors are all that keeps two units from being compared."""
    finished = [(task, 0.0) for task in pairing.tasks if _is_finished(task.baseline, task.other)]
    return len(sum_by_unit(finished)) > 1


def _is_finished(*cells: Cell) -> bool:
    return all(cell.graded + cell.errors for cell in cells)


def _interval(scored: Sequence[Scored], measure: Measure) -> Interval | None:
    tasks = [TaskMean(mean=difference, graded=2, group=task.group) for task, difference in scored]
    found = mean_interval(tasks, is_binary=False) if tasks else None
    if found is None or not measure.is_bounded:
        return found
    return replace(found, low=max(-1.0, found.low), high=min(1.0, found.high))


def _p_value(pairing: Pairing, scored: Sequence[Scored], measure: Measure) -> PValue | None:
    if len(sum_by_unit(scored)) < 2:
        return None
    is_single = all(task.baseline.graded == 1 == task.other.graded for task, _ in scored)
    if is_single and measure.is_binary and pairing.unit == "tasks":
        wins = sum(difference > 0 for _, difference in scored)
        return mcnemar(wins, sum(difference < 0 for _, difference in scored))
    return sign_flip(sum_by_unit(scored), pairing.unit)


def _range(pairing: Pairing, measure: Measure, trials: int, *, of_errors: bool = False) -> Range | None:
    if not trials or not measure.is_bounded:
        return None
    low, high = (
        extreme_differences(pairing, measure, errors=of_errors, retried=not of_errors, favour=favour)
        for favour in (0.0, 1.0)
    )
    at_low, at_high = average(d for _, d in low), average(d for _, d in high)
    if at_low is None or at_high is None:
        return None
    return Range(
        trials=trials,
        low=at_low,
        high=at_high,
        p_low=sign_flip(sum_by_unit(low), pairing.unit).value if of_errors else None,
        p_high=sign_flip(sum_by_unit(high), pairing.unit).value if of_errors else None,
    )


def _count(pairing: Pairing, of: Callable[[Cell], int]) -> int:
    return sum(of(task.baseline) + of(task.other) for task in pairing.tasks)


def _value(p: PValue | None) -> float | None:
    return None if p is None else p.value


def _adjust(
    found: Sequence[Comparison], p_of: Callable[[Comparison], float | None]
) -> Iterable[float | None]:
    """Holm over the p-values that there are."""
    known = [p for one in found if (p := p_of(one)) is not None]
    adjusted = iter(adjust_holm(known))
    return [None if p_of(one) is None else next(adjusted) for one in found]


def _conclude(
    comparison: Comparison, p: float | None, p_low: float | None, p_high: float | None
) -> Conclusion:
    if p is None or comparison.difference is None:
        return comparison.conclusion
    if comparison.has_unbounded_errors:
        return "undecided because of errors"
    observed = _find(comparison.difference, p)
    errors = comparison.errors
    if errors is None or p_low is None or p_high is None:
        return observed
    same = {observed, _find(errors.low, p_low), _find(errors.high, p_high)}
    return observed if len(same) == 1 else "undecided because of errors"


def _find(difference: float, p: float) -> _Finding:
    if p >= ALPHA:
        return "no difference shown"
    return "better" if difference > 0 else "worse"


def _flip(baseline: Arm, other: Arm, measure: Measure, scored: Scored) -> Flip:
    task, difference = scored
    before, after = _examples(task, is_up=difference > 0)
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
