"""The tables of `lab show RUN` about where a result comes from: prices, flaky tasks, tasks apart, tags."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType

from labrunner.analysis.comparing.breakdown import Breakdown, FlakyTask
from labrunner.analysis.describing.price import Price, Standing
from labrunner.analysis.judging.numbers import write_change
from labrunner.analysis.report import Report
from labrunner.display.text.columns import Column, tabulate
from labrunner.display.text.console import make_line, make_table, name_once, stack
from labrunner.display.text.quantities import format_count, format_figure, format_range, write_p

SHOWN: Final = 5
DIVIDED: Final = ("task apart", "lowest", "mean", "highest", "mean ")
TAGS: Final = ("tag", "variant", "tasks", "mean", "95% interval", "difference", "p (Holm)", "conclusion")
_NUMBERS: Final = ("tasks", "mean", "difference", "p (Holm)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priced:
    """What a variant cost, and how it stands among the others."""

    variant_id: str
    price: Price
    standing: Standing | None


def show_prices(report: Report) -> RenderableType | None:
    """Show what a solved task costs, and which variants others make superfluous."""
    standings = {each.variant_id: each for each in report.standings}
    rows = [
        _Priced(variant_id=each.variant_id, price=each.price, standing=standings.get(each.variant_id))
        for each in report.figures
        if each.price is not None
    ]
    return tabulate(PRICES, rows) if rows else None


def show_breakdown(found: Breakdown) -> Iterator[RenderableType]:
    """Show tasks that flicker, tasks that tell variants apart, and figures by tag."""
    if found.flaky:
        more = found.flaky_tasks - len(found.flaky[:SHOWN])
        yield stack(
            tabulate(FLAKY, found.flaky[:SHOWN]),
            make_line(f"and {more:,} more", "dim") if more else None,
        )
    if found.divided:
        rows = [
            (each.task_id, each.lowest, format_figure(each.low), each.highest, format_figure(each.high))
            for each in found.divided[:SHOWN]
        ]
        yield make_table(DIVIDED, rows, numbers=("mean", "mean "))
    if found.tags:
        yield _show_tags(found)


def _show_tags(found: Breakdown) -> RenderableType:
    rows = [
        (
            each.tag,
            each.variant_id,
            f"{each.tasks:,}",
            format_figure(each.observed),
            format_range(each.interval.low, each.interval.high) if each.interval else "undefined",
            "" if each.difference is None else write_change(each.difference),
            "" if each.p_adjusted is None else write_p(each.p_adjusted),
            each.conclusion or "",
        )
        for each in found.tags
    ]
    left = found.tags_left_out
    return stack(
        make_table(TAGS, name_once(rows), numbers=_NUMBERS, whole=("95% interval",)),
        make_line(f"{found.family} comparisons by tag are one family", "dim") if found.family > 1 else None,
        make_line(f"and {format_count(left, 'more tag')}", "dim") if left else None,
    )


def _range(price: Price) -> str:
    if price.low is None:
        return "undefined"
    return f"{price.low:.4f} to {price.high:.4f}" if price.high is not None else f"from {price.low:.4f}"


def _write_dominated(standing: Standing | None) -> str:
    return "" if standing is None else ", ".join(standing.dominated_by) or "nobody"


def _write_usd(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.4f}"


PRICES: Final[tuple[Column[_Priced], ...]] = (
    Column("variant", lambda each: each.variant_id),
    Column("spent (USD)", lambda each: _write_usd(each.price.cost_usd), "number"),
    Column("solved", lambda each: f"{each.price.solved:,}", "number"),
    Column("a solved task", lambda each: _write_usd(each.price.value), "number"),
    Column("95% interval", lambda each: _range(each.price), "whole"),
    Column("a trial", lambda each: _write_usd(each.standing.cost_usd if each.standing else None)),
    Column("dominated by", lambda each: _write_dominated(each.standing)),
)
FLAKY: Final[tuple[Column[FlakyTask], ...]] = (
    Column("flaky task", lambda each: each.task_id),
    Column("variant", lambda each: each.variant_id),
    Column("passed", lambda each: f"{each.passed} of {each.graded}"),
    Column("mean", lambda each: format_figure(each.mean), "number"),
    Column("variance", lambda each: format_figure(each.variance), "number"),
)
