"""Did retries bend the result? Inputs that trigger errors get re-rolled, and those may be the hard ones.

Rule: outcomes alone can't rule the bias out, since a clean retry looks like a clean first attempt. So the
verdict goes by bounds: the headline with retried trials scored at the scale's lower end, and at its upper
one. It is bounded when neither moves it by more than a margin, not bounded when one does, and can't be told
where nothing bounds a score. Retry rates and odds are told beside it; they prove nothing either way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from labrunner.analysis.comparing.pairing import Arm, PairedTask
from labrunner.analysis.comparing.questions import ask_others
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.describing.variance import ALPHA
from labrunner.analysis.inference.association import Association, Table, cochran_mantel_haenszel
from labrunner.analysis.inference.permutation import adjust_holm
from labrunner.analysis.sums.measure import Measure, average, choose_measure
from labrunner.analysis.sums.tally import Cell

MARGIN: Final = 0.02
"""How far retries may move a mean, by default: as a share of the scale."""
CAUTION: Final = "rates and odds can't rule a bias by retries out: only the bounds can"
Bounded = Literal["bounded", "not bounded", "can't tell"]
_ROUNDING: Final = 1e-12
"""1 of 50 is 0.02, though 1 - 0.98 in binary is a hair more."""
_RATE: Final = Measure(name="retried", is_rate=True, better="lower", low=0.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantShift:
    """One variant's part of the report."""

    variant_id: str
    finished: int
    retried: int
    attempts: int
    most_attempts: int
    headline: float | None
    as_zero: float | None
    """The headline with retried trials scored at the scale's lower end; None, like `as_one`, without
    bounds."""
    as_one: float | None
    left_out: float | None
    move: float | None
    """How far retried trials can have moved the mean, as a share of the scale."""
    answer: Bounded
    within_tasks: Association
    """Final success with having been retried, stratified by task; p adjusted by Holm over variants."""
    rate_p: float | None
    """Retry rate against that of `rate_baseline`, paired by task, adjusted by Holm; None with too few
    tasks."""
    rate_baseline: str | None = None
    """The variant that this one is compared with; None for one that others are compared with."""
    scale: tuple[float, float] | None = None
    """Where `as_zero` and `as_one` score them."""

    @property
    def rate(self) -> float:
        """Share of finished trials that needed a retry."""
        return self.retried / self.finished if self.finished else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryShift:
    """The report."""

    variants: tuple[VariantShift, ...]
    margin: float
    answer: Bounded
    """The worst of the variants' answers."""
    notes: tuple[str, ...]
    """What else is remarkable."""
    verdict: str
    caution: str

    @property
    def is_bounded(self) -> bool:
        """Whether retries can't have moved any mean by more than the margin."""
        return self.answer == "bounded"


def report_retries(
    arms: Sequence[tuple[Arm, Figures]],
    baselines: Mapping[str, str] | None = None,
    *,
    margin: float = MARGIN,
) -> RetryShift | None:
    """Report on retries; None when there were none.

    Attempts are those that the tallies were told of, in earlier runs of a lineage too. `baselines` names
    what each variant is compared with; every other one with the first, unless told.
    """
    if not any(arm.tally.retried for arm, _ in arms):
        return None
    if baselines is None:
        baselines = {arm.name: arms[0][0].name for arm, _ in arms[1:]}
    by_name = {arm.name: arm for arm, _ in arms}
    rates = _compare_rates(by_name, baselines)
    shifts = _adjust_odds([_shift(arm, figures, margin) for arm, figures in arms])
    shifts = [
        replace(each, rate_p=rates.get(each.variant_id), rate_baseline=baselines.get(each.variant_id))
        for each in shifts
    ]
    answers = {each.answer for each in shifts}
    answer = next(each for each in ("not bounded", "can't tell", "bounded") if each in answers)
    return RetryShift(
        variants=tuple(shifts),
        margin=margin,
        answer=answer,
        notes=tuple(note for each in shifts for note in _notes(each)),
        verdict=_verdict(shifts, answer, margin),
        caution=CAUTION,
    )


def _shift(arm: Arm, figures: Figures, margin: float) -> VariantShift:
    tally, measure = arm.tally, choose_measure(arm.tally)
    cells = tally.cells.values()
    low, high = (
        None if end is None else average(measure.mean_with(cell, retried=end) for cell in cells)
        for end in measure.bounds or (None, None)
    )
    move = _move(figures.observed, low, high, measure)
    return VariantShift(
        variant_id=arm.name,
        finished=tally.graded + tally.errors,
        retried=tally.retried,
        attempts=tally.attempts,
        most_attempts=tally.most_attempts,
        headline=figures.observed,
        as_zero=low,
        as_one=high,
        left_out=average(measure.mean_of_first_attempts(cell) for cell in cells),
        move=move,
        answer=_answer(tally.retried, move, margin),
        within_tasks=cochran_mantel_haenszel([_table(cell) for cell in cells]),
        rate_p=None,
        scale=measure.bounds,
    )


def _move(observed: float | None, low: float | None, high: float | None, measure: Measure) -> float | None:
    if observed is None or low is None or high is None or measure.bounds is None:
        return None
    return max(observed - low, high - observed) / (measure.bounds[1] - measure.bounds[0])


def _answer(retried: int, move: float | None, margin: float) -> Bounded:
    if not retried:
        return "bounded"
    if move is None:
        return "can't tell"
    return "bounded" if move <= margin + _ROUNDING else "not bounded"


def _table(cell: Cell) -> Table:
    """Graded trials of a task: retried or not, passed or not."""
    return Table(
        both=cell.retried_passed,
        first=cell.retried_graded - cell.retried_passed,
        second=cell.passed - cell.retried_passed,
        neither=cell.failed - (cell.retried_graded - cell.retried_passed),
    )


def _compare_rates(arms: Mapping[str, Arm], baselines: Mapping[str, str]) -> dict[str, float]:
    """p-values of retry rates, paired by task: trials of a task share what makes them fail."""
    found = {}
    for name, baseline in baselines.items():
        answer = ask_others(_rate_differences(arms[baseline], arms[name]), _RATE)
        if answer is not None:
            found[name] = answer.p
    return dict(zip(found, adjust_holm(list(found.values())), strict=True))


def _rate_differences(baseline: Arm, other: Arm) -> list[tuple[PairedTask, float]]:
    scored = []
    for task_id, group in baseline.groups.items():
        cells = baseline.tally.cells.get(task_id), other.tally.cells.get(task_id)
        before, after = (None if cell is None else _as_rate(cell) for cell in cells)
        if before is not None and after is not None and before.graded and after.graded:
            task = PairedTask(task_id=task_id, group=group, baseline=before, other=after)
            scored.append((task, after.passed / after.graded - before.passed / before.graded))
    return scored


def _as_rate(cell: Cell) -> Cell:
    """A task's finished trials, counted as passed where they were retried."""
    return Cell(graded=cell.graded + cell.errors, passed=cell.retried_graded + cell.retried_errors)


def _adjust_odds(shifts: Sequence[VariantShift]) -> list[VariantShift]:
    known = [each.within_tasks.p_value for each in shifts if each.within_tasks.p_value is not None]
    adjusted = iter(adjust_holm(known))
    return [
        each
        if each.within_tasks.p_value is None
        else replace(each, within_tasks=replace(each.within_tasks, p_value=next(adjusted)))
        for each in shifts
    ]


def _notes(shift: VariantShift) -> list[str]:
    found = []
    if shift.rate_p is not None and shift.rate_p < ALPHA:
        found.append(
            f"{shift.variant_id}: its retry rate differs from {shift.rate_baseline}'s "
            f"(p = {shift.rate_p:.3g})"
        )
    p = shift.within_tasks.p_value
    if p is not None and p < ALPHA:
        found.append(
            f"{shift.variant_id}: retried trials of a task end otherwise than its others (p = {p:.3g})"
        )
    return found


def _verdict(shifts: Sequence[VariantShift], answer: Bounded, margin: float) -> str:
    retried = sum(shift.retried for shift in shifts)
    finished = sum(shift.finished for shift in shifts)
    counted = f"{answer}: {retried:,} of {finished:,} trials needed a retry"
    if answer == "can't tell":
        names = ", ".join(shift.variant_id for shift in shifts if shift.answer == answer)
        return f"{counted}, and nothing bounds what those of {names} would have scored without"
    worst = max((shift for shift in shifts if shift.move is not None), key=lambda shift: shift.move or 0.0)
    moved = f"{worst.move:.3f}" if worst.move is not None else "-"
    if answer == "bounded":
        return (
            f"{counted}; scored as the worst or the best, they move no mean by more than {moved} of its scale"
        )
    return (
        f"{counted}; scored as the worst or the best, they move {worst.variant_id}'s mean by up to {moved} "
        f"of its scale, more than {margin:g}"
    )
