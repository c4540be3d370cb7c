"""What `lab log list` prints: one line a run, unreadable ones included."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rich.console import RenderableType

from labrunner.display.results.show import name_state
from labrunner.display.text.console import make_line, make_table, stack
from labrunner.display.text.quantities import format_figure
from labrunner.store.layout import RunPaths
from labrunner.store.reading.glancing import NOTHING, Outcome
from labrunner.store.reading.listing import RunListing

_COLUMNS: Final = ("run", "name", "begun (UTC)", "state", "done", "pass", "fail", "errors", "mean", "cost")
_IN_IDS: Final = ("name", "begun (UTC)")
"""What the id of a run tells, unless somebody chose another: left out where all ids tell it."""
SHOWN_MEANS: Final = 3


def show_runs(
    listings: Sequence[RunListing],
    *,
    where: str,
    sought: str | None = None,
    outcomes: Mapping[RunPaths, Outcome] = MappingProxyType({}),
) -> RenderableType:
    """Show runs in the given order; `where` is the directory that was looked at, `sought` the state."""
    if not listings:
        return make_line(f"no {sought} runs in {where}" if sought else f"no runs in {where}")
    problems = [f"{_name(listing)}: {listing.problem}" for listing in listings if listing.problem]
    rows = [_row(listing, outcomes.get(listing.paths, NOTHING)) for listing in listings]
    left_out = _IN_IDS if all(map(_is_told_by_id, listings)) else ()
    columns = [name for name in _COLUMNS if name not in left_out]
    rows = [tuple(cell for name, cell in zip(_COLUMNS, row, strict=True) if name in columns) for row in rows]
    return stack(
        make_table(columns, rows, numbers=_COLUMNS[4:], whole=("begun (UTC)",)),
        make_line("") if problems else None,
        *(make_line(problem, "red") for problem in problems),
    )


def _is_told_by_id(listing: RunListing) -> bool:
    name, begun = _name(listing), listing.created_at[:16].replace(":", "-")
    return listing.problem is not None or (name.startswith(begun) and f"_{listing.name}_" in name)


def _row(listing: RunListing, outcome: Outcome) -> tuple[str, ...]:
    begun = listing.created_at[:16].replace("T", " ")
    about = (_name(listing), listing.name, begun, name_state(listing.state))
    if listing.counts is None:
        return (*about, "", "", "", "", "", "")
    counts = listing.counts
    # Not what is committed: a recovered report has rows of trials that were never finished.
    done = f"{counts.passed + counts.failed + counts.errors}/{counts.planned}"
    figures = (str(counts.passed), str(counts.failed), str(counts.errors))
    cost = "" if outcome.cost_usd is None else f"${outcome.cost_usd:,.2f}"
    return (*about, done, *figures, _write_means(outcome), cost)


def _write_means(outcome: Outcome) -> str:
    """Each variant's mean, in their order."""
    means = [format_figure(mean) for _, mean in outcome.means]
    return " ".join(means[:SHOWN_MEANS]) + (" ..." if len(means) > SHOWN_MEANS else "")


def _name(listing: RunListing) -> str:
    """What to type for it: a run's folder may have been renamed or copied since it got its id."""
    return listing.paths.root.name
