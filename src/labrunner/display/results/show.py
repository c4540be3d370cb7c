"""What `lab show RUN` prints: how the run stands, a table of its variants, warnings, where to look next.

Rule: every figure comes with its n and its method; what is missing is said, in words, below the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from rich.console import RenderableType

from labrunner.analysis.comparing.questions import FEWEST_UNITS
from labrunner.analysis.describing.figures import PASS, Figures
from labrunner.analysis.inference.interval import Interval
from labrunner.analysis.judging.cautions import INTERIM, ONLY_AT_THE_END, describe_caution
from labrunner.analysis.judging.sentences import why_no_interval
from labrunner.analysis.summary import read_lineage, read_report
from labrunner.analysis.sums.lineage import describe_lineage
from labrunner.display.results.report import show_chart, show_details, show_findings
from labrunner.display.text.columns import Column, tabulate
from labrunner.display.text.console import make_hints, make_item, make_line, stack
from labrunner.display.text.quantities import format_count, format_duration, format_figure, format_range
from labrunner.records.barrier import explain_barrier
from labrunner.records.facts.outage_note import OutageNote
from labrunner.records.run import StatusRecord
from labrunner.records.summary import SummaryRecord
from labrunner.store.reading.run_state import RunState

HOLDS: Final = "in 95% of such runs it holds the mean over all tasks like these"
NO_BARRIERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})
_STYLES: Final = {"success": "green", "error": "red", "crashed": "red", "cancelled": "yellow"}


def show_run(  # noqa: PLR0913 - all that is known of a run
    *,
    state: RunState,
    status: StatusRecord,
    summary: SummaryRecord,
    hints: Sequence[tuple[str, str]] = (),
    last_sign_at: str | None = None,
    in_full: bool = True,
    name: str | None = None,
    under_way: RenderableType | None = None,
    barriers: Mapping[str, Sequence[str]] = NO_BARRIERS,
    outages: Sequence[OutageNote] = (),
) -> RenderableType:
    """Show a run, or only what nobody should overlook of it; `hints` say where to look next.

    `name` is what to write for it in commands, its id unless told.
    `barriers` are ways in which its barriers were held, each with the variants that it was for.
    `last_sign_at` is of a crashed run: the newest thing that its owner wrote, if not its status.
    """
    marked = read_report(summary).marked
    told = state_line(
        state, status, finished=summary.totals.trials + marked, marked=marked, last_sign_at=last_sign_at
    )
    return stack(
        make_line(told, _STYLES.get(state, "")),
        make_line(f"digest {status.chain}") if status.chain else None,
        make_line(""),
        show_summary(summary, is_over=state != "started", in_full=in_full, name=name),
        *(make_line(told, "dim") for told in _describe_barriers(barriers)),
        make_line(describe_outages(outages, is_live=state == "started"), "dim") if outages else None,
        under_way,
        make_hints(hints),
    )


def _describe_barriers(barriers: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for word, variants in barriers.items():
        whose = f" of {', '.join(variants)}" if len(barriers) > 1 else ""
        yield f"barrier{whose}: {explain_barrier(word)}"


def describe_outages(outages: Sequence[OutageNote], *, is_live: bool) -> str:
    """Say how often, how long and why a run waited for others, and whether it still does."""
    causes = ", ".join(dict.fromkeys(str(each.cause) for each in outages))
    times = [
        datetime.fromisoformat(each.ended_at) - datetime.fromisoformat(each.began_at)
        for each in outages
        if each.ended_at is not None
    ]
    told = f"paused by {format_count(len(outages), 'outage')} ({causes})"
    if times:
        told += f", {format_duration(sum(each.total_seconds() for each in times))} in all"
    if is_live and outages[-1].ended_at is None:
        told += f"; paused now, since {outages[-1].began_at}"
    return told


def name_state(state: str) -> str:
    """The word that people read for a run's state."""
    return "running" if state == "started" else state


def state_line(
    state: RunState,
    status: StatusRecord,
    *,
    finished: int,
    marked: int = 0,
    last_sign_at: str | None = None,
) -> str:
    """Say in one line how a run stands; `finished` was counted, the status of a crashed run is older.

    Of the finished trials, `marked` are not to be used.
    """
    planned, buffered = status.counts.planned, status.counts.buffered
    share = f"all {planned:,}" if finished == planned > 1 else f"{finished:,} of {planned:,}"
    told = f"{name_state(state)}: {share} {'trial' if planned == 1 else 'trials'} finished"
    if status.ended_at is not None:
        took = datetime.fromisoformat(status.ended_at) - datetime.fromisoformat(status.started_at)
        told += f" in {format_duration(took.total_seconds())}"
    if marked:
        told += f", {marked:,} of them marked as not to be used"
    if buffered and state != "crashed":
        told += (
            f" ({buffered:,} of them {'waits' if buffered == 1 else 'wait'} in the buffer for slots before)"
        )
    return told + _describe_end(state, status, last_sign_at or status.updated_at)


def _describe_end(state: RunState, status: StatusRecord, last_sign_at: str) -> str:
    if state == "started":
        return f", {status.counts.running:,} running"
    if state == "crashed":
        return f"; the last sign of life was at {last_sign_at}"
    if status.error is None:
        return ""
    cause = f"{status.error.cause}: " if status.error.cause else ""
    trial = f" (trial {status.error.trial_id})" if status.error.trial_id else ""
    return f"; {cause}{status.error.message}{trial}"


def show_summary(
    summary: SummaryRecord, *, is_over: bool = True, in_full: bool = True, name: str | None = None
) -> RenderableType:
    """Show the table of variants, a chart, how they were computed, and what to beware of."""
    report = read_report(summary)
    chart = show_chart(report.figures) if report.has_intervals else None
    notes = list(_method_notes(report.figures))
    lineage = read_lineage(summary)
    if lineage is not None:
        notes.append(describe_lineage(lineage))
    if not is_over and report.has_intervals:
        notes.append(INTERIM)
    warnings = [each for each in report.cautions if is_over or each.kind not in ONLY_AT_THE_END]
    return stack(
        tabulate(COLUMNS, report.figures),
        stack(make_line(""), chart) if chart is not None else None,
        (show_details if in_full else show_findings)(report) if report.has_intervals else None,
        make_line("") if notes or warnings else None,
        *(make_line(note, "dim") for note in notes),
        *(
            make_item("warning:", describe_caution(each, name or summary.run_id), "yellow")
            for each in warnings
        ),
    )


def format_interval(interval: Interval | None) -> str:
    """Write an interval; `undefined` when the data can't carry one."""
    return format_range(interval.low, interval.high) if interval else "undefined"


COLUMNS: Final[tuple[Column[Figures], ...]] = (
    Column("variant", lambda each: each.variant_id),
    Column("planned", lambda each: f"{each.planned:,}", "number"),
    Column("graded", lambda each: f"{each.graded:,}", "number"),
    Column("pass", lambda each: f"{each.passed:,}", "number"),
    Column("fail", lambda each: f"{each.failed:,}", "number"),
    Column("errors", lambda each: f"{each.errors:,}", "number"),
    Column("retried", lambda each: f"{each.retried:,}", "number"),
    Column("mean", lambda each: format_figure(each.observed), "number"),
    Column("95% interval", lambda each: format_interval(each.interval), "whole"),
)
"""The table of variants. A new column is one line here; what else belongs to it, CONTRIBUTING.md says."""


def _method_notes(figures: Sequence[Figures]) -> Iterator[str]:
    """Say what the means average and how the intervals were made; once where it is the same for all."""
    graded = [each for each in figures if each.graded]
    for told in dict.fromkeys(_describe_measure(each) for each in graded):
        sharing = [each.variant_id for each in graded if _describe_measure(each) == told]
        yield told if len(sharing) == len(graded) else f"{', '.join(sharing)}: {told}"
    limits = {each.variant_id: each.ended_by for each in graded if each.ended_by}
    for name, ended_by in limits.items():
        counts = ", ".join(f"{limit} {count}" for limit, count in ended_by.items())
        yield f"{name}: agents that ran into a limit, graded as they stood: {counts}"


def _describe_measure(figures: Figures) -> str:
    measure = "passes" if figures.measure == PASS else f"`{figures.measure}`"
    lower = " (lower is better)" if figures.better == "lower" else ""
    is_one = figures.tasks < 2
    counted = "one task" if is_one else f"{format_count(figures.tasks, 'task')}, each weighing the same"
    told = f"mean of {measure}{lower} over {counted}"
    if figures.interval is None:
        return f"{told}; no interval: {why_no_interval(figures)}"
    return f"{told}; interval: {_describe_reach(figures, figures.interval)} ({figures.interval.method})"


def _describe_reach(figures: Figures, interval: Interval) -> str:
    """Say what an interval holds, and of what it does not speak."""
    if figures.population == "these_tasks":
        return "about these tasks only: in 95% of such runs it holds their mean"
    if interval.units >= FEWEST_UNITS:
        return HOLDS
    return f"too few to speak of others ({interval.units}; it takes {FEWEST_UNITS})"
