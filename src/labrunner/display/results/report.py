"""The tables of `lab show RUN` below its first one: bounds, repeated success, expenses, differences, retries.

Rule: every figure printed here stands in `summary.json` under the same name.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.console import RenderableType

from labrunner.analysis.comparing.answer import Span
from labrunner.analysis.comparing.comparison import Comparison
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.describing.repeated import Bounded, Repeated
from labrunner.analysis.describing.variance import VarianceSplit
from labrunner.analysis.inference.interval import LEVEL
from labrunner.analysis.judging.numbers import write_change
from labrunner.analysis.judging.retryshift import RetryShift, VariantShift
from labrunner.analysis.judging.sentences import describe, describe_level
from labrunner.analysis.report import Report
from labrunner.analysis.sums.expense import Quantity
from labrunner.display.results.breakdown import show_breakdown, show_prices
from labrunner.display.text.chart import Dot, DotChart, fit_scale
from labrunner.display.text.columns import Column, tabulate
from labrunner.display.text.console import indent, make_item, make_line, make_table, name_once, stack
from labrunner.display.text.quantities import (
    format_figure,
    format_range,
    format_seconds,
    format_share,
    write_p,
)
from labrunner.records.facts.call_usage import UNPRICED

SHOWN_K: Final = 4
ADJUSTED: Final = (
    "p and intervals are adjusted for {} comparisons (Holm): any of the conclusions misleads in at most "
    "1 of 20 runs"
)
_EXPENSES: Final = {
    "time_s": "time",
    "agent_s": "agent's time",
    "cpu_s": "cpu time",
    "tokens": "tokens",
    "cost_usd": "cost (USD)",
    UNPRICED: "calls without a price",
}
_REPEATED: Final = ("variant", "k", "pass@k", "95% interval", "pass^k", "95% interval ")
_ODDS: Final = ("variant", "tested", "ratio", "95% interval", "p")
_CHANGES: Final = ("p", "tasks", "conclusion")


def show_chart(figures: Sequence[Figures]) -> RenderableType | None:
    """Draw every variant's mean with its interval; None where means are not of the same measure."""
    known = [each for each in figures if each.observed is not None]
    if not known or len({each.measure for each in known}) > 1:
        return None
    dots = [_dot(each) for each in known]
    scales = {each.scale for each in known}
    low, high = fit_scale(dots, within=scales.pop() if len(scales) == 1 else None)
    return DotChart(dots=dots, low=low, high=high)


def show_details(report: Report) -> RenderableType:
    """Show everything that the first table has no room for."""
    parts = [
        tabulate(BOUNDS, report.figures),
        _show_repeated(report.figures),
        _show_expenses(report.figures),
        show_prices(report),
        _show_differences(report.comparisons),
        *(show_breakdown(report.breakdown) if report.breakdown else ()),
        show_shift(report.retry_shift) if report.retry_shift else None,
    ]
    return stack(*(stack(make_line(""), part) for part in parts if part is not None))


def show_findings(report: Report) -> RenderableType:
    """Show what nobody should overlook: what errors may hide, what differs, what retries may have bent."""
    is_whole = all(each.coverage == 1.0 for each in report.figures)
    is_empty = not any(each.graded for each in report.figures)
    shift = report.retry_shift
    parts = [
        None if is_whole or is_empty else tabulate(BOUNDS, report.figures),
        None if is_empty else _show_differences(report.comparisons),
        stack(*_show_verdict(shift)) if shift else None,
    ]
    return stack(*(stack(make_line(""), part) for part in parts if part is not None))


def _dot(figures: Figures) -> Dot:
    interval = figures.interval
    return Dot(
        label=figures.variant_id,
        value=figures.observed or 0.0,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )


def _show_repeated(figures: Sequence[Figures]) -> RenderableType | None:
    rows = [
        (
            each.variant_id,
            str(one.k),
            format_figure(one.any_passes.value),
            _format_bounded(one.any_passes),
            format_figure(one.all_pass.value),
            _format_bounded(one.all_pass),
        )
        for each in figures
        for one in _choose(each.repeated)
    ]
    missing = [
        each.variant_id for each in figures if each.graded and not each.repeated and each.most_graded > 1
    ]
    if not rows and not missing:
        return None
    return stack(
        make_table(
            _REPEATED,
            name_once(rows),
            numbers=("k", "pass@k", "pass^k"),
            whole=("95% interval", "95% interval "),
        )
        if rows
        else None,
        make_line(f"no pass@k nor pass^k of {', '.join(missing)}: a task has only one graded trial", "dim")
        if missing
        else None,
    )


def _choose(repeated: Sequence[Repeated]) -> Sequence[Repeated]:
    """The first few k, and the largest."""
    if len(repeated) <= SHOWN_K:
        return repeated
    return [*repeated[: SHOWN_K - 1], repeated[-1]]


def _format_bounded(figure: Bounded) -> str:
    return format_range(figure.low, figure.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spent:
    """How much of one thing the trials of a variant used."""

    variant_id: str
    name: str
    quantity: Quantity

    def write(self, amount: float) -> str:
        return _format_amount(self.name, amount)


def _show_expenses(figures: Sequence[Figures]) -> RenderableType | None:
    rows = [
        _Spent(variant_id=each.variant_id, name=name, quantity=quantity)
        for each in figures
        for name in _EXPENSES
        if (quantity := each.expense.get(name)) is not None
    ]
    return tabulate(SPENT, rows, once=True) if rows else None


def _format_amount(name: str, amount: float) -> str:
    if name.endswith("_s"):
        return format_seconds(amount)
    return f"{amount:.4f}" if name == "cost_usd" else f"{amount:,.0f}"


def _show_differences(comparisons: Sequence[Comparison]) -> RenderableType | None:
    if not comparisons:
        return None
    levels = {each.answer.interval.level for each in comparisons if each.answer}
    interval = "interval" if len(levels) > 1 else f"{describe_level(min(levels, default=LEVEL))} interval"
    is_shared = len({each.baseline for each in comparisons}) == 1
    first = f"against {comparisons[0].baseline}" if is_shared else "compared"
    columns = (first, "difference", interval, *_CHANGES)
    rows = [
        (
            each.other if is_shared else f"{each.other} against {each.baseline}",
            *_describe_change(each, is_leveled=len(levels) > 1),
        )
        for each in comparisons
    ]
    family = comparisons[0].family
    return stack(
        make_table(columns, rows, numbers=("difference", "p", "tasks"), whole=(interval,)),
        make_line(ADJUSTED.format(family), "dim") if family > 1 else None,
        make_line(""),
        *(make_line(describe(each)) for each in comparisons),
    )


def _describe_change(comparison: Comparison, *, is_leveled: bool) -> tuple[str, ...]:
    answer, difference = comparison.answer, comparison.difference
    return (
        "-" if difference is None else write_change(difference),
        _describe_span(answer.interval, is_leveled=is_leveled) if answer else "undefined",
        "-" if answer is None else write_p(answer.p_adjusted),
        f"{comparison.tasks:,}",
        comparison.conclusion,
    )


def _describe_span(span: Span, *, is_leveled: bool) -> str:
    told = format_range(span.low, span.high)
    return f"{told} at {describe_level(span.level)}" if is_leveled else told


def show_shift(shift: RetryShift) -> RenderableType:
    """Show the retry-shift report."""
    odds = [row for each in shift.variants for row in _describe_odds(each)]
    low, high = _name_ends(shift)
    named = {"as 0": f"as {low}", "as 1": f"as {high}"}
    columns = [replace(column, name=named.get(column.name, column.name)) for column in SHIFT]
    return stack(
        make_line(
            f"retries: the mean with retried trials scored {low}, as they ended, scored {high}, left out"
        ),
        tabulate(columns, shift.variants),
        *((make_line(""), _show_odds(odds)) if odds else ()),
        make_line(""),
        *_show_verdict(shift),
        make_line(shift.caution, "dim"),
    )


def _name_ends(shift: RetryShift) -> tuple[str, str]:
    """The ends of the scale at which retried trials are scored; in words where variants have several."""
    scales = {each.scale for each in shift.variants if each.scale is not None}
    if len(scales) > 1:
        return "lowest", "highest"
    low, high = scales.pop() if scales else (0.0, 1.0)
    return f"{low:g}", f"{high:g}"


def _show_odds(rows: Sequence[Sequence[str]]) -> RenderableType:
    return stack(
        make_line("odds of passing when retried, and rates of retries"),
        make_table(_ODDS, name_once(rows), numbers=("ratio", "p"), whole=("95% interval",)),
    )


def _show_verdict(shift: RetryShift) -> Iterator[RenderableType]:
    yield make_line(f"retries {shift.verdict}", "" if shift.is_bounded else "yellow")
    yield from (indent(make_item("-", note, "yellow")) for note in shift.notes)


def _describe_odds(shift: VariantShift) -> Iterator[tuple[str, ...]]:
    found = shift.within_tasks
    if found.p_value is not None:
        ratio = found.odds_ratio
        yield (
            shift.variant_id,
            "odds within tasks",
            "undefined" if ratio.value is None else f"{ratio.value:.2f}",
            format_range(ratio.low, ratio.high),
            write_p(found.p_value),
        )
    if shift.rate_p is not None:
        yield shift.variant_id, f"rate against {shift.rate_baseline}", "", "", write_p(shift.rate_p)


def _write_share(share: float | None) -> str:
    return "-" if share is None else format_share(share)


def _write_attempts(shift: VariantShift) -> str:
    return f"{shift.attempts / shift.finished:.2f}" if shift.finished else "-"


def _vary(part: Callable[[VarianceSplit], float | None]) -> Callable[[Figures], str]:
    """One part of a variance, where there is any."""
    return lambda each: format_figure(part(each.variance) if each.variance else None)


BOUNDS: Final[tuple[Column[Figures], ...]] = (
    Column("variant", lambda each: each.variant_id),
    Column("lower", lambda each: format_figure(each.lower), "number"),
    Column("observed", lambda each: format_figure(each.observed), "number"),
    Column("upper", lambda each: format_figure(each.upper), "number"),
    Column("coverage", lambda each: _write_share(each.coverage), "number"),
    Column("within tasks", _vary(lambda variance: variance.within), "number"),
    Column("between", _vary(lambda variance: variance.between), "number"),
    Column("icc", _vary(lambda variance: variance.icc), "number"),
)
SPENT: Final[tuple[Column[_Spent], ...]] = (
    Column("variant", lambda each: each.variant_id),
    Column("a trial", lambda each: _EXPENSES[each.name], "whole"),
    Column("trials", lambda each: f"{each.quantity.trials:,}", "number"),
    Column("median", lambda each: each.write(each.quantity.median), "number"),
    Column("p95", lambda each: each.write(each.quantity.p95), "number"),
    Column("all attempts", lambda each: each.write(each.quantity.total), "number"),
    Column("discarded", lambda each: each.write(each.quantity.discarded), "number"),
)
SHIFT: Final[tuple[Column[VariantShift], ...]] = (
    Column("variant", lambda each: each.variant_id),
    Column("retried", lambda each: f"{each.retried:,}", "number"),
    Column("rate", lambda each: f"{100 * each.rate:.1f}%", "number"),
    Column("attempts", _write_attempts, "number"),
    Column("most", lambda each: f"{each.most_attempts}", "number"),
    Column("as 0", lambda each: format_figure(each.as_zero), "number"),
    Column("mean", lambda each: format_figure(each.headline), "number"),
    Column("as 1", lambda each: format_figure(each.as_one), "number"),
    Column("left out", lambda each: format_figure(each.left_out), "number"),
)
