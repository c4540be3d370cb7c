"""Writes a run's summary as Markdown, for pull requests and notes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from labrunner.analysis.comparing.comparison import Comparison
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.judging.cautions import ONLY_AT_THE_END, describe_caution
from labrunner.analysis.judging.sentences import describe
from labrunner.analysis.report import Report
from labrunner.analysis.summary import read_lineage, read_report
from labrunner.analysis.sums.lineage import describe_lineage
from labrunner.interop.exporter import Exporter
from labrunner.runner.reports.lookup import RunInFull


def write(seen: RunInFull, target: Path) -> tuple[Path, ...]:
    """Write the file."""
    target.write_text("\n".join(render(seen)) + "\n", encoding="utf-8")
    return (target,)


FORMAT: Final = Exporter(ending=".md", write=write)


def render(seen: RunInFull) -> Iterator[str]:
    """The lines of the file."""
    report = read_report(seen.summary)
    totals = seen.summary.totals
    yield f"# {escape(seen.record.name)}"
    yield ""
    counted = f"{totals.trials + report.marked:,} of {seen.record.planned:,} trials"
    if report.marked:
        counted += f", {report.marked:,} of them marked as not to be used"
    yield f"Run `{seen.record.run_id}`, {escape(seen.state)}: {counted}."
    if seen.status.chain:
        yield f"Digest `{seen.status.chain}`."
    yield ""
    yield from _table(_COLUMNS, [_row(each) for each in report.figures])
    yield from _render_comparisons(report.comparisons)
    yield from _render_rest(report, seen)


_COLUMNS = (
    "variant", "planned", "graded", "pass", "fail", "errors", "retried",
    "mean", "95% interval", "lower", "upper", "coverage",
)  # fmt: skip


def _row(figures: Figures) -> tuple[str, ...]:
    interval = figures.interval
    return (
        figures.variant_id,
        f"{figures.planned:,}",
        f"{figures.graded:,}",
        f"{figures.passed:,}",
        f"{figures.failed:,}",
        f"{figures.errors:,}",
        f"{figures.retried:,}",
        number(figures.observed),
        f"{number(interval.low)} to {number(interval.high)} ({interval.method})" if interval else "undefined",
        number(figures.lower),
        number(figures.upper),
        "-" if figures.coverage is None else f"{100 * figures.coverage:.1f}%",
    )


def _render_comparisons(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if not comparisons:
        return
    yield "## Differences"
    yield ""
    columns = ("", "difference", "interval", "p", "tasks", "better", "alike", "worse", "conclusion")
    yield from _table(columns, [_compared(each) for each in comparisons])
    for each in comparisons:
        yield f"{escape(describe(each))}"
        yield ""


def _compared(comparison: Comparison) -> tuple[str, ...]:
    answer = comparison.answer
    interval = answer.interval if answer else None
    return (
        f"{comparison.other} - {comparison.baseline}",
        "-" if comparison.difference is None else f"{comparison.difference:+.3f}",
        f"{number(interval.low)} to {number(interval.high)}" if interval else "undefined",
        write_p(answer.p_adjusted if answer else None),
        str(comparison.tasks),
        str(comparison.wins),
        str(comparison.ties),
        str(comparison.losses),
        comparison.conclusion,
    )


def _render_rest(report: Report, seen: RunInFull) -> Iterator[str]:
    if (lineage := read_lineage(seen.summary)) is not None:
        yield "## Lineage"
        yield ""
        yield f"{escape(describe_lineage(lineage))}."
        yield ""
    if report.retry_shift is not None:
        yield "## Retries"
        yield ""
        yield f"{escape(report.retry_shift.verdict)}. {report.retry_shift.caution}."
        yield ""
    is_over, run = seen.state != "started", seen.record.run_id
    warnings = [each for each in report.cautions if is_over or each.kind not in ONLY_AT_THE_END]
    if warnings:
        yield "## Warnings"
        yield ""
        yield from (f"- {escape(describe_caution(each, run))}" for each in warnings)


def number(value: float | None) -> str:
    """Write a figure; `-` when there is none."""
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.5g}"


def write_p(value: float | None) -> str:
    """Write a p-value; a tiny one is not 0."""
    return "< 0.001" if value is not None and value < 0.001 else number(value)


def escape(text: str) -> str:
    """Write text so that Markdown shows it and does nothing with it."""
    plain = " ".join(text.split())
    marked = "".join(f"\\{letter}" if letter in "\\`*_[]<>#|~" else letter for letter in plain)
    return marked.replace("&", "&amp;")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(' --- ' for _ in columns)}|"
    for row in rows:
        yield f"| {' | '.join(map(escape, row))} |"
    yield ""
