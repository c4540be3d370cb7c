"""What `lab log list` prints: one line a run, unreadable ones included."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType

from labrunner.display.console import make_line, make_table, stack
from labrunner.records.run import Counts

_COLUMNS: Final = ("run", "state", "done", "pass", "fail", "errors", "started")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run in a listing."""

    run_id: str
    state: str
    """Its status, or `running`, `crashed`, `unreadable`."""
    counts: Counts | None
    started_at: str | None
    problem: str = ""
    """Why it can't be read."""


def show_runs(lines: Sequence[RunLine], *, where: str) -> RenderableType:
    """Show runs in the given order; `where` is the directory that was looked at."""
    if not lines:
        return make_line(f"no runs in {where}")
    problems = [f"{line.run_id}: {line.problem}" for line in lines if line.problem]
    return stack(
        make_table(_COLUMNS, [_row(line) for line in lines], numbers=_COLUMNS[2:6]),
        make_line("") if problems else None,
        *(make_line(f"unreadable: {problem}", "red") for problem in problems),
    )


def _row(line: RunLine) -> tuple[str, ...]:
    started = (line.started_at or "")[:19]
    if line.counts is None:
        return (line.run_id, line.state, "", "", "", "", started)
    counts = line.counts
    done = f"{counts.committed + counts.buffered}/{counts.planned}"
    figures = (str(counts.passed), str(counts.failed), str(counts.errors))
    return (line.run_id, line.state, done, *figures, started)
