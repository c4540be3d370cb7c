"""What `lab log list` prints: one line a run, unreadable ones included."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType

from labrunner.display.console import make_line, make_table, stack
from labrunner.display.show import name_state
from labrunner.store.listing import RunListing

_COLUMNS: Final = ("run", "state", "done", "pass", "fail", "errors")


def show_runs(listings: Sequence[RunListing], *, where: str, sought: str | None = None) -> RenderableType:
    """Show runs in the given order; `where` is the directory that was looked at, `sought` the state."""
    if not listings:
        return make_line(f"no {sought} runs in {where}" if sought else f"no runs in {where}")
    problems = [f"{_name(listing)}: {listing.problem}" for listing in listings if listing.problem]
    return stack(
        make_table(_COLUMNS, [_row(listing) for listing in listings], numbers=_COLUMNS[2:]),
        make_line("") if problems else None,
        *(make_line(problem, "red") for problem in problems),
    )


def _row(listing: RunListing) -> tuple[str, ...]:
    if listing.counts is None:
        return (_name(listing), name_state(listing.state), "", "", "", "")
    counts = listing.counts
    # Not what is committed: a recovered report has rows of trials that were never finished.
    done = f"{counts.passed + counts.failed + counts.errors}/{counts.planned}"
    figures = (str(counts.passed), str(counts.failed), str(counts.errors))
    return (_name(listing), name_state(listing.state), done, *figures)


def _name(listing: RunListing) -> str:
    """What to type for it: a run's folder may have been renamed or copied since it got its id."""
    return listing.paths.root.name
