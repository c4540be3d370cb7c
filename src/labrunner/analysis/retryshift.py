"""Did retries bend the result? Inputs that trigger errors get re-rolled, and those may be the hard ones.

Rule: outcomes alone can't rule the bias out, since a clean retry looks like a clean first attempt. So the
headline is told again with retried trials scored 0, scored 1 and left out, and retry rates are compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from labrunner.analysis.association import Association, Table, cochran_mantel_haenszel, fisher, unstratified
from labrunner.analysis.interval import Interval
from labrunner.analysis.measure import Measure, average
from labrunner.analysis.permutation import adjust_holm
from labrunner.analysis.tally import Cell, VariantTally
from labrunner.analysis.variance import ALPHA

CAUTION: Final = (
    "outcomes alone can't rule out a bias by retries: only the bounds, the retry rates and the causes can"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A variant's observed mean, where it is known, with its interval and what it averages."""

    variant_id: str
    tally: VariantTally
    measure: Measure
    observed: float | None
    interval: Interval | None


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
    """The headline with retried trials scored 0; None, like `as_one`, without bounds of the scale."""
    as_one: float | None
    left_out: float | None
    interval_low: float | None
    interval_high: float | None
    within_tasks: Association
    """Final success with having been retried, stratified by task."""
    overall: Association
    rate_p: float | None
    """Retry rate against that of `rate_baseline`: Fisher's exact test, adjusted by Holm."""
    rate_baseline: str | None = None
    """The variant that this one is compared with; None for one that others are compared with."""

    @property
    def rate(self) -> float:
        """Share of finished trials that needed a retry."""
        return self.retried / self.finished if self.finished else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryShift:
    """The report."""

    variants: tuple[VariantShift, ...]
    is_stable: bool
    reasons: tuple[str, ...]
    """Why it is not stable."""
    verdict: str
    caution: str


def report_retries(
    headlines: Sequence[Headline], baselines: Mapping[str, str] | None = None
) -> RetryShift | None:
    """Report on retries; None when there were none.

    `baselines` names what each variant is compared with; every other one with the first, unless told.
    """
    if not any(headline.tally.retried for headline in headlines):
        return None
    if baselines is None:
        baselines = {each.variant_id: headlines[0].variant_id for each in headlines[1:]}
    shifts = _with_rates([_shift(headline) for headline in headlines], baselines)
    reasons = tuple(reason for shift in shifts for reason in _reasons(shift))
    return RetryShift(
        variants=tuple(shifts),
        is_stable=not reasons,
        reasons=reasons,
        verdict=_verdict(shifts, reasons),
        caution=CAUTION,
    )


def _shift(headline: Headline) -> VariantShift:
    tally, measure = headline.tally, headline.measure
    cells = tally.cells.values()
    tables = [_table(cell) for cell in cells]

    def scored(value: float) -> float | None:
        return average(measure.mean_with(cell, retried=value) for cell in cells)

    return VariantShift(
        variant_id=headline.variant_id,
        finished=tally.graded + tally.errors,
        retried=tally.retried,
        attempts=tally.attempts,
        most_attempts=tally.most_attempts,
        headline=headline.observed,
        as_zero=scored(0.0) if measure.is_bounded else None,
        as_one=scored(1.0) if measure.is_bounded else None,
        left_out=average(measure.mean_of_first_attempts(cell) for cell in cells),
        interval_low=headline.interval.low if headline.interval else None,
        interval_high=headline.interval.high if headline.interval else None,
        within_tasks=cochran_mantel_haenszel(tables),
        overall=unstratified(tables),
        rate_p=None,
    )


def _table(cell: Cell) -> Table:
    """Graded trials of a task: retried or not, passed or not."""
    return Table(
        both=cell.retried_passed,
        first=cell.retried_graded - cell.retried_passed,
        second=cell.passed - cell.retried_passed,
        neither=cell.failed - (cell.retried_graded - cell.retried_passed),
    )


def _with_rates(shifts: list[VariantShift], baselines: Mapping[str, str]) -> list[VariantShift]:
    known = {shift.variant_id: shift for shift in shifts}
    adjusted = adjust_holm([fisher(_rates(known[name], known[other])) for other, name in baselines.items()])
    found = dict(zip(baselines, adjusted, strict=True))
    return [
        replace(shift, rate_p=found.get(shift.variant_id), rate_baseline=baselines.get(shift.variant_id))
        for shift in shifts
    ]


def _rates(baseline: VariantShift, other: VariantShift) -> Table:
    return Table(
        both=other.retried,
        first=other.finished - other.retried,
        second=baseline.retried,
        neither=baseline.finished - baseline.retried,
    )


def _reasons(shift: VariantShift) -> list[str]:
    if shift.retried and shift.headline is None:
        return [f"{shift.variant_id}: nothing is graded"]
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
    if _is_beyond_interval(shift):
        found.append(
            f"{shift.variant_id}: scoring retried trials 0 or 1 moves the mean out of its interval "
            f"({shift.as_zero:.3f} to {shift.as_one:.3f})"
        )
    return found


def _is_beyond_interval(shift: VariantShift) -> bool:
    bounds = (shift.as_zero, shift.as_one, shift.interval_low, shift.interval_high)
    match bounds:
        case (float() as zero, float() as one, float() as low, float() as high):
            return zero < low or one > high
        case _:
            return False


def _verdict(shifts: Sequence[VariantShift], reasons: tuple[str, ...]) -> str:
    retried = sum(shift.retried for shift in shifts)
    finished = sum(shift.finished for shift in shifts)
    counted = f"{retried:,} of {finished:,} trials needed a retry"
    return (
        f"not stable: {counted}; {'; '.join(reasons)}" if reasons else f"stable: {counted}, and nothing moves"
    )
