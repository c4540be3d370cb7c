"""What `lab compare` prints: a chart of differences, then each comparison with everything to judge it by."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType

from labrunner.analysis.comparing.answer import Answer
from labrunner.analysis.comparing.comparison import (
    Comparison,
    Range,
    is_conclusion_safe_from_retries,
    is_out_of_reach,
    open_span,
)
from labrunner.analysis.comparing.flips import Flip
from labrunner.analysis.comparing.pairing import Dropped
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.judging.cautions import Caution, describe_caution
from labrunner.analysis.judging.numbers import write_change
from labrunner.analysis.judging.retryshift import RetryShift
from labrunner.analysis.judging.sentences import describe, describe_level, describe_p
from labrunner.display.results.report import show_shift
from labrunner.display.text.chart import Dot, DotChart, fit_scale
from labrunner.display.text.console import indent, make_fields, make_item, make_line, make_table, stack
from labrunner.display.text.quantities import format_count, format_figure, format_range
from labrunner.records.facts.call_usage import UNPRICED

NAMED: Final = 5
_USE: Final = (
    "variant",
    "tokens",
    "a trial",
    "spent (USD)",
    "a trial ",
    "a solved task",
    "calls without a price",
)
_STYLES: Final = {"better": "green", "worse": "red", "undecided because of errors": "yellow"}


def show_comparisons(
    comparisons: Sequence[Comparison],
    retry_shift: RetryShift | None,
    cautions: Sequence[tuple[str, Caution]] = (),
    figures: Sequence[Figures] = (),
) -> RenderableType:
    """Show comparisons, what variants used, whether retries bent them, and what else to beware of."""
    warnings = [describe_caution(caution, run) for run, caution in cautions]
    return stack(
        _show_chart(comparisons),
        *(stack(make_line(""), _show_one(each)) for each in comparisons),
        _show_use(figures),
        stack(make_line(""), show_shift(retry_shift)) if retry_shift else None,
        make_line("") if warnings else None,
        *(make_item("warning:", warning, "yellow") for warning in warnings),
    )


def _show_use(figures: Sequence[Figures]) -> RenderableType | None:
    """Show tokens and money of each variant, where any tells them."""
    telling = [each for each in figures if "tokens" in each.expense or "cost_usd" in each.expense]
    if not telling:
        return None
    rows = [
        (
            each.variant_id,
            _sum(each, "tokens", ",.0f"),
            _mean(each, "tokens", ",.0f"),
            _sum(each, "cost_usd", ".4f"),
            _mean(each, "cost_usd", ".4f"),
            "-" if each.price is None or each.price.value is None else f"{each.price.value:.4f}",
            _sum(each, UNPRICED, ",.0f") if UNPRICED in each.expense else "",
        )
        for each in telling
    ]
    columns = [*_USE] if any(row[-1] for row in rows) else [*_USE[:-1]]
    kept = [row[: len(columns)] for row in rows]
    return stack(make_line(""), make_table(columns, kept, numbers=columns[1:]))


def _sum(figures: Figures, name: str, form: str) -> str:
    quantity = figures.expense.get(name)
    return "-" if quantity is None else f"{quantity.total:{form}}"


def _mean(figures: Figures, name: str, form: str) -> str:
    quantity = figures.expense.get(name)
    return "-" if quantity is None else f"{quantity.total / quantity.trials:{form}}"


def _show_chart(comparisons: Sequence[Comparison]) -> RenderableType | None:
    shared = len({each.baseline for each in comparisons}) == 1
    dots = [
        Dot(
            label=each.other if shared else f"{each.other} - {each.baseline}",
            value=each.difference,
            low=each.answer.interval.low if each.answer else None,
            high=each.answer.interval.high if each.answer else None,
        )
        for each in comparisons
        if each.difference is not None
    ]
    if not dots or len({each.measure for each in comparisons}) > 1:
        return None
    zero = Dot(label="", value=0.0)
    low, high = fit_scale([*dots, zero])
    reach = max(abs(low), abs(high))
    if reach > 1 and all(abs(end or 0.0) <= 1 for dot in dots for end in (dot.low, dot.value, dot.high)):
        reach = 1.0  # differences of rates end there
    return stack(
        make_line(f"difference to {comparisons[0].baseline}" if shared else "differences", "bold"),
        DotChart(dots=dots, low=-reach, high=reach, mark=0.0),
    )


def _show_one(comparison: Comparison) -> RenderableType:
    heading = f"{comparison.other} against {comparison.baseline}: {comparison.conclusion}"
    return stack(
        make_line(heading, _STYLES.get(comparison.conclusion, "bold")),
        indent(make_line(describe(comparison))),
        indent(make_fields([field for field in _fields(comparison) if field[1]])),
        _show_flips(f"better with {comparison.other}", comparison.up, comparison.wins),
        _show_flips(f"better with {comparison.baseline}", comparison.down, comparison.losses),
    )


def _fields(comparison: Comparison) -> list[tuple[str, str]]:
    means = (
        f"{comparison.baseline} {format_figure(comparison.baseline_mean)}, "
        f"{comparison.other} {format_figure(comparison.other_mean)}"
    )
    scale = f"`{comparison.measure}`{', lower is better' if comparison.is_lower_better else ''}"
    counted = f"{format_count(comparison.tasks, 'task')}: " + ", ".join(
        f"{count} {word}"
        for count, word in (
            (comparison.wins, "better"),
            (comparison.ties, "alike"),
            (comparison.losses, "worse"),
        )
    )
    asked = "these tasks" if comparison.population == "these_tasks" else "tasks like these"
    return [
        ("means", f"{means} ({scale})" if comparison.difference is not None else ""),
        ("these tasks", _describe_answer(comparison, comparison.here)),
        ("tasks like these", _describe_answer(comparison, comparison.others)),
        ("conclusion", f"about {asked}: {comparison.conclusion}"),
        ("tasks", counted),
        ("detectable", _describe_detectable(comparison)),
        ("errors", _describe_errors(comparison)),
        ("retries", _describe_retries(comparison)),
        ("dropped", "; ".join(map(_describe_dropped, comparison.dropped))),
    ]


def _describe_answer(comparison: Comparison, answer: Answer | None) -> str:
    if answer is None:
        counted = format_count(comparison.units, comparison.unit.removesuffix("s"))
        return f"no answer from {counted}" if comparison.here else ""
    interval = answer.interval
    return (
        f"{write_change(answer.difference)} "
        f"({describe_level(interval.level)} interval {format_range(interval.low, interval.high)}), "
        f"{describe_p(answer.p_adjusted, comparison.family)}; {answer.method}"
    )


def _describe_detectable(comparison: Comparison) -> str:
    if comparison.others is None:
        return ""
    if is_out_of_reach(comparison.others, comparison.family):
        few = format_count(comparison.units, comparison.unit.removesuffix("s"))
        return f"nothing: {few} are too few to show any of {comparison.family} comparisons"
    if comparison.detectable is None:
        return "none short of the whole scale is shown 4 times out of 5 by so few tasks and replications"
    family = f", in {comparison.family} comparisons" if comparison.family > 1 else ""
    return (
        f"{format_figure(comparison.detectable)}: what as many tasks and replications show "
        f"4 times out of 5{family}"
    )


def _describe_errors(comparison: Comparison) -> str:
    if comparison.has_unbounded_errors:
        return "trials errored, and nothing bounds what they would have scored"
    errors = comparison.errors
    if errors is None:
        return ""
    told = f"{_describe_range(errors)}, however {format_count(errors.trials, 'errored trial')} had ended"
    return f"{told}{_describe_more(errors, comparison)}{_describe_span(comparison)}"


def _describe_span(comparison: Comparison) -> str:
    """The interval that errors leave open: a range without zero may be part of one with it."""
    answer = comparison.answer
    span = open_span(comparison, answer.interval.level) if answer else None
    return f"; its interval is then within {format_range(span.low, span.high)}" if span else ""


def _describe_retries(comparison: Comparison) -> str:
    retries = comparison.retries
    if comparison.has_unbounded_retries:
        return "trials were retried, and nothing bounds what they would have scored without"
    if retries is None:
        return ""
    counted = format_count(retries.trials, "retried trial")
    told = f"{_describe_range(retries)} with {counted} scored for either side"
    told += _describe_more(retries, comparison)
    return told if is_conclusion_safe_from_retries(comparison) else f"{told}: they could turn its sign"


def _describe_more(found: Range, comparison: Comparison) -> str:
    """Why the difference may lie outside: it can't speak of tasks of which one side has no grade."""
    more = found.tasks - comparison.tasks
    if more <= 0:
        return ""
    others = f"{format_count(more, 'task')} of which one side has no grade"
    return f" ({format_count(found.tasks, 'task')}: also {others}, so the difference above may lie outside)"


def _describe_range(found: Range) -> str:
    return f"{write_change(found.low)} to {write_change(found.high)}"


def _describe_dropped(dropped: Dropped) -> str:
    named = ", ".join(dropped.first[:NAMED]) + (", ..." if dropped.count > NAMED else "")
    return f"{format_count(dropped.count, 'task')}: {dropped.why} ({named})"


def _show_flips(title: str, flips: Sequence[Flip], count: int) -> RenderableType | None:
    if not flips:
        return None
    rows = [
        (
            flip.task_id,
            format_figure(flip.baseline),
            format_figure(flip.other),
            trial,
        )
        for flip in flips
        for trial in (flip.baseline_trial, flip.other_trial)
    ]
    more = count - len(flips)
    columns = ("task", "before", "after", "a trial before, one after")
    return stack(
        make_line(""),
        indent(make_line(title, "bold")),
        indent(make_table(columns, _tell_once(rows), numbers=("before", "after"))),
        indent(make_line(f"and {format_count(more, 'more task')}")) if more else None,
    )


def _tell_once(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """A task has two rows, one a trial; the second says only which."""
    return [("", "", "", row[-1]) if number % 2 else row for number, row in enumerate(rows)]
