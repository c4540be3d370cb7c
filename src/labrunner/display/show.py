"""What `lab show RUN` prints: how the run stands, a table of its variants, warnings, where to look next.

Rule: every figure comes with its n and its method; what is missing is said, in words, below the table.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rich.console import RenderableType
from rich.table import Table

from labrunner.analysis.figures import Figures
from labrunner.analysis.interval import Interval
from labrunner.analysis.summary import read_figures
from labrunner.display.console import make_hints, make_line, make_table, stack
from labrunner.display.quantities import format_count, format_duration, format_share
from labrunner.records.run import StatusRecord
from labrunner.records.summary import SummaryRecord
from labrunner.store.reading import RunState

LOW_COVERAGE: Final = 0.95
FEW_GROUPS: Final = 10
_STYLES: Final = {"success": "green", "error": "red", "crashed": "red", "cancelled": "yellow"}
_COLUMNS: Final = ("variant", "planned", "graded", "pass", "fail", "errors", "mean", "95% interval")


def show_run(
    *, state: RunState, status: StatusRecord, summary: SummaryRecord, hints: Sequence[tuple[str, str]] = ()
) -> RenderableType:
    """Show a run; `hints` say where to look next."""
    told = state_line(state, status, finished=summary.totals.trials)
    return stack(
        make_line(told, _STYLES.get(state, "")),
        make_line(f"digest {status.chain}") if status.chain else None,
        make_line(""),
        show_summary(summary, is_over=state != "started"),
        make_hints(hints),
    )


def name_state(state: str) -> str:
    """The word that people read for a run's state."""
    return "running" if state == "started" else state


def state_line(state: RunState, status: StatusRecord, *, finished: int) -> str:
    """Say in one line how a run stands; `finished` was counted, the status of a crashed run is older."""
    planned, buffered = status.counts.planned, status.counts.buffered
    share = f"all {planned:,}" if finished == planned else f"{finished:,} of {planned:,}"
    told = f"{name_state(state)}: {share} trials finished"
    if status.ended_at is not None:
        took = datetime.fromisoformat(status.ended_at) - datetime.fromisoformat(status.started_at)
        told += f" in {format_duration(took.total_seconds())}"
    if buffered and state != "crashed":
        told += f" ({buffered:,} of them wait in the buffer for slots before them)"
    return told + _describe_end(state, status)


def _describe_end(state: RunState, status: StatusRecord) -> str:
    if state == "started":
        return f", {status.counts.running:,} running"
    if state == "crashed":
        return f"; the last sign of life was at {status.updated_at}"
    if status.error is None:
        return ""
    cause = f"{status.error.cause}: " if status.error.cause else ""
    trial = f" (trial {status.error.trial_id})" if status.error.trial_id else ""
    return f"; {cause}{status.error.message}{trial}"


def show_summary(summary: SummaryRecord, *, is_over: bool = True) -> RenderableType:
    """Show the table of variants, how it was computed, and what to beware of."""
    figures = read_figures(summary)
    notes = list(_method_notes(figures))
    warnings = [line for each in figures for line in warn(each, is_over=is_over)]
    return stack(
        _table(figures),
        make_line("") if notes or warnings else None,
        *(make_line(note, "dim") for note in notes),
        *(make_line(f"warning: {warning}", "yellow") for warning in warnings),
    )


def warn(figures: Figures, *, is_over: bool = True) -> Iterator[str]:
    """Say what bends or weakens a variant's figures; what is only not finished yet is no warning."""
    found = [_warn_of_errors(figures), _warn_of_retries(figures), _warn_of_groups(figures)]
    if is_over:
        found += [_warn_of_coverage(figures), _warn_of_lost_tasks(figures)]
    return (f"{figures.variant_id}: {warning}" for warning in found if warning)


def _warn_of_errors(figures: Figures) -> str:
    if not figures.errors:
        return ""
    causes = ", ".join(f"{cause} {count}" for cause, count in figures.causes.items())
    told = f"{format_count(figures.errors, 'trial')} without a grade ({causes}), left out of the mean"
    if figures.lower is None or figures.upper is None:
        return told
    return f"{told}; counted as 0 or as 1 it is {figures.lower:.3f} to {figures.upper:.3f}"


def _warn_of_retries(figures: Figures) -> str:
    return f"{format_count(figures.retried, 'trial')} needed a retry" if figures.retried else ""


def _warn_of_groups(figures: Figures) -> str:
    interval = figures.interval
    if interval is None or "groups" not in interval.method or interval.units >= FEW_GROUPS:
        return ""
    return f"an interval over only {interval.units} groups is rough"


def _warn_of_coverage(figures: Figures) -> str:
    if figures.coverage is None or figures.coverage >= LOW_COVERAGE:
        return ""
    share = format_share(figures.coverage)
    return f"only {share} of the planned trials are graded ({figures.graded:,} of {figures.planned:,})"


def _warn_of_lost_tasks(figures: Figures) -> str:
    if not figures.ungraded_tasks:
        return ""
    named = ", ".join(figures.first_ungraded[:3]) + (", ..." if figures.ungraded_tasks > 3 else "")
    count = format_count(figures.ungraded_tasks, "task")
    return f"{count} without any graded trial, so the mean speaks of the others only ({named})"


def _table(figures: Sequence[Figures]) -> Table:
    rows = [
        (
            each.variant_id,
            f"{each.planned:,}",
            f"{each.graded:,}",
            f"{each.passed:,}",
            f"{each.failed:,}",
            f"{each.errors:,}",
            format_figure(each.observed),
            format_interval(each.interval),
        )
        for each in figures
    ]
    return make_table(_COLUMNS, rows, numbers=_COLUMNS[1:7])


def format_figure(value: float | None) -> str:
    """Write a mean; `-` when there is none."""
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.5g}"


def format_interval(interval: Interval | None) -> str:
    """Write an interval; `undefined` when the data can't carry one."""
    if interval is None:
        return "undefined"
    return f"{format_figure(interval.low)} to {format_figure(interval.high)}"


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
    measure = "passes" if figures.measure == "pass" else f"`{figures.measure}`"
    if figures.tasks < 2:
        return f"mean of {measure} over one task: no interval"
    told = f"mean of {measure} over {format_count(figures.tasks, 'task')}, each weighing the same"
    return f"{told}; interval: {figures.interval.method}" if figures.interval is not None else told
