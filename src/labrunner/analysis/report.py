"""Everything that is computed about a run, as one object, to and from the `ext` of its summary.

Rule: a figure stands there with its inputs; `inputs` holds the sums of every task, from which all of
them can be computed again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import msgspec

from labrunner.analysis.comparing.breakdown import Breakdown, break_down
from labrunner.analysis.comparing.comparison import Comparison, compare_all
from labrunner.analysis.comparing.family import join_family
from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.describing.figures import Figures, compute_all, from_plain, to_plain
from labrunner.analysis.describing.price import Standing, rank
from labrunner.analysis.judging.cautions import Caution, find_cautions
from labrunner.analysis.judging.declarations import about_declarations
from labrunner.analysis.judging.outage import Outage, find_outage
from labrunner.analysis.judging.retryshift import MARGIN, RetryShift, report_retries
from labrunner.analysis.judging.sentences import describe
from labrunner.analysis.sums.conduct import Conduct
from labrunner.analysis.sums.expense import Expense
from labrunner.analysis.sums.tally import Cell, Tally, VariantTally
from labrunner.experiment.resolved import Population
from labrunner.policy.budget import Budget

_SUMS: Final = tuple(field.name for field in fields(Cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run says."""

    has_intervals: bool
    """False in the summary of a run under way, which has nothing heavy in it."""
    figures: tuple[Figures, ...]
    comparisons: tuple[Comparison, ...]
    """Every other variant against the first, and pairs that were required beside them: one family."""
    breakdown: Breakdown | None
    """Flaky tasks, tasks that tell variants apart, figures by tag; None in a summary without intervals."""
    standings: tuple[Standing, ...]
    """Quality against cost, where two variants or more tell what they cost."""
    retry_shift: RetryShift | None
    """None when nothing was retried."""
    outage: Outage | None
    cautions: tuple[Caution, ...]

    @property
    def marked(self) -> int:
        """Finished trials that somebody marked as not to be used."""
        return sum(each.invalidated for each in self.figures)


def make_report(  # noqa: PLR0913 - all that a report speaks of
    tally: Tally,
    planned: Mapping[str, int],
    *,
    expense: Expense | None = None,
    with_intervals: bool = True,
    budget: Budget | None = None,
    conduct: Conduct | None = None,
    population: Population = "tasks_like_these",
    retry_margin: float = MARGIN,
    replay: str | None = None,
    required: Sequence[tuple[str, str]] = (),
) -> Report:
    """Compute everything; `planned` names each variant's number of slots, in order."""
    figures = compute_all(
        tally, planned, expense=expense, with_intervals=with_intervals, population=population
    )
    arms = make_arms(tally, planned, population=population)
    family = join_family([(arms[0], other) for other in arms[1:]], arms, required)
    comparisons = compare_all(family) if with_intervals else ()
    told = list(zip(arms, figures, strict=True))
    shift = report_retries(told, margin=retry_margin) if with_intervals else None
    outage = find_outage(expense.variants) if expense and with_intervals else None
    return Report(
        has_intervals=with_intervals,
        figures=figures,
        comparisons=comparisons,
        breakdown=break_down(arms, tally.tags) if with_intervals and arms else None,
        standings=_rank(figures),
        retry_shift=shift,
        outage=outage,
        cautions=(
            *about_declarations(list(tally.variants.values())),
            *find_cautions(figures, shift, outage, budget if expense else None, conduct, replay),
        ),
    )


def make_arms(
    tally: Tally,
    planned: Mapping[str, int],
    *,
    prefix: str = "",
    digests: Mapping[str, str] | None = None,
    population: Population = "tasks_like_these",
) -> tuple[Arm, ...]:
    """A run's variants as sides of comparisons."""
    return tuple(
        Arm(
            name=f"{prefix}{variant_id}",
            variant_id=variant_id,
            tally=tally.variants.get(variant_id, VariantTally()),
            groups=tally.groups,
            digests=digests or {},
            population=population,
        )
        for variant_id in planned
    )


def to_ext(report: Report, tally: Tally) -> dict[str, Any]:
    """Give a report as plain JSON."""
    told: dict[str, Any] = {
        "has_intervals": report.has_intervals,
        "is_valid": all(each.is_valid for each in report.figures),
        "tasks": len(tally.groups),
        "figures": {each.variant_id: to_plain(each) for each in report.figures},
        "comparisons": [asdict(each) | {"says": describe(each)} for each in report.comparisons],
        "breakdown": asdict(report.breakdown) if report.breakdown else None,
        "standings": [asdict(each) for each in report.standings],
        "retry_shift": asdict(report.retry_shift) if report.retry_shift else None,
        "outage": asdict(report.outage) if report.outage else None,
        "warnings": [asdict(each) for each in report.cautions],
    }
    return told | {"inputs": _inputs(tally)} if report.has_intervals else told


def from_ext(ext: Mapping[str, Any], order: tuple[str, ...]) -> Report:
    """Read a report back; `order` names the variants as the summary lists them."""
    return Report(
        has_intervals=ext["has_intervals"],
        figures=tuple(from_plain(ext["figures"][variant_id]) for variant_id in order),
        comparisons=msgspec.convert(ext["comparisons"], tuple[Comparison, ...]),
        breakdown=msgspec.convert(ext["breakdown"], Breakdown | None),
        standings=msgspec.convert(ext["standings"], tuple[Standing, ...]),
        retry_shift=msgspec.convert(ext["retry_shift"], RetryShift | None),
        outage=msgspec.convert(ext["outage"], Outage | None),
        cautions=msgspec.convert(ext["warnings"], tuple[Caution, ...]),
    )


def _rank(figures: Sequence[Figures]) -> tuple[Standing, ...]:
    known = [
        (each.variant_id, each.observed, each.expense["cost_usd"].total / each.expense["cost_usd"].trials)
        for each in figures
        if each.observed is not None and "cost_usd" in each.expense
    ]
    measures = {(each.measure, each.better) for each in figures if each.observed is not None}
    if len(known) < 2 or len(measures) > 1:
        return ()
    return rank(known, is_lower_better=any(better == "lower" for _, better in measures))


def _inputs(tally: Tally) -> dict[str, Any]:
    """The sums that every figure is made from, task by task."""
    groups = {task_id: group for task_id, group in tally.groups.items() if group is not None}
    return {
        "columns": _SUMS,
        "variants": {name: _sums(variant) for name, variant in tally.variants.items()},
        "marked": {name: _sums(variant.marked) for name, variant in tally.variants.items() if variant.marked},
        "groups": groups,
        "tags": tally.tags,
    }


def _sums(variant: VariantTally) -> dict[str, list[Any]]:
    return {task_id: [getattr(cell, name) for name in _SUMS] for task_id, cell in variant.cells.items()}
