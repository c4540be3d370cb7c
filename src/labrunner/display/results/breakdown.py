"""The tables of `lab show RUN` about where a result comes from: prices, flaky tasks, tasks apart, tags."""

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType

from labrunner.analysis.comparing.breakdown import Breakdown
from labrunner.analysis.describing.price import Price
from labrunner.analysis.report import Report
from labrunner.display.text.console import make_line, make_table, name_once, stack
from labrunner.display.text.quantities import format_count, format_figure, format_range, write_p

SHOWN: Final = 5
PRICES: Final = (
    "variant",
    "spent (USD)",
    "solved",
    "a solved task",
    "95% interval",
    "a trial",
    "dominated by",
)
FLAKY: Final = ("flaky task", "variant", "passed", "mean", "variance")
DIVIDED: Final = ("task apart", "lowest", "mean", "highest", "mean ")
TAGS: Final = ("tag", "variant", "tasks", "mean", "95% interval", "difference", "p (Holm)", "conclusion")
_NUMBERS: Final = ("tasks", "mean", "difference", "p (Holm)")


def show_prices(report: Report) -> RenderableType | None:
    """Show what a solved task costs, and which variants others make superfluous."""
    dominated = {each.variant_id: each for each in report.standings}
    rows = []
    for each in report.figures:
        if each.price is None:
            continue
        standing = dominated.get(each.variant_id)
        rows.append(
            (
                each.variant_id,
                f"{each.price.cost_usd:.4f}",
                f"{each.price.solved:,}",
                "-" if each.price.value is None else f"{each.price.value:.4f}",
                _range(each.price),
                "-" if standing is None else f"{standing.cost_usd:.4f}",
                "" if standing is None else ", ".join(standing.dominated_by) or "nobody",
            )
        )
    return make_table(PRICES, rows, numbers=PRICES[1:4], whole=("95% interval",)) if rows else None


def show_breakdown(found: Breakdown) -> Iterator[RenderableType]:
    """Show tasks that flicker, tasks that tell variants apart, and figures by tag."""
    if found.flaky:
        rows = [
            (
                each.task_id,
                each.variant_id,
                f"{each.passed} of {each.graded}",
                format_figure(each.mean),
                format_figure(each.variance),
            )
            for each in found.flaky[:SHOWN]
        ]
        more = found.flaky_tasks - len(rows)
        yield stack(
            make_table(FLAKY, rows, numbers=FLAKY[3:]),
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
            "" if each.difference is None else f"{each.difference:+.3f}",
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
