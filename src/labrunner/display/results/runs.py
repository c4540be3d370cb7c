"""What `lab log list` prints: one line a run, unreadable ones included."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rich.console import RenderableType

from labrunner.display.results.show import name_state
from labrunner.display.text.columns import Column, tabulate
from labrunner.display.text.console import make_line, stack
from labrunner.display.text.quantities import format_figure
from labrunner.records.run import Counts
from labrunner.store.layout import RunPaths
from labrunner.store.reading.glancing import NOTHING, Outcome
from labrunner.store.reading.listing import RunListing

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
    rows = [_Row(listing=listing, outcome=outcomes.get(listing.paths, NOTHING)) for listing in listings]
    left_out = _IN_IDS if all(map(_is_told_by_id, listings)) else ()
    columns = [column for column in COLUMNS if column.name not in left_out]
    return stack(
        tabulate(columns, rows),
        make_line("") if problems else None,
        *(make_line(problem, "red") for problem in problems),
    )


def _is_told_by_id(listing: RunListing) -> bool:
    name, begun = _name(listing), listing.created_at[:16].replace(":", "-")
    return listing.problem is not None or (name.startswith(begun) and f"_{listing.name}_" in name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A run, and what came of it."""

    listing: RunListing
    outcome: Outcome


def _count(tell: Callable[[Counts], str]) -> Callable[[_Row], str]:
    """What counts tell, or nothing where they can't be read."""
    return lambda row: "" if row.listing.counts is None else tell(row.listing.counts)


def _write_done(counts: Counts) -> str:
    # Not what is committed: a recovered report has rows of trials that were never finished.
    return f"{counts.passed + counts.failed + counts.errors}/{counts.planned}"


def _write_means(outcome: Outcome) -> str:
    """Each variant's mean, in their order."""
    means = [format_figure(mean) for _, mean in outcome.means]
    return " ".join(means[:SHOWN_MEANS]) + (" ..." if len(means) > SHOWN_MEANS else "")


def _name(listing: RunListing) -> str:
    """What to type for it: a run's folder may have been renamed or copied since it got its id."""
    return listing.paths.root.name


def _write_cost(outcome: Outcome) -> str:
    return "" if outcome.cost_usd is None else f"${outcome.cost_usd:,.2f}"


COLUMNS: Final[tuple[Column[_Row], ...]] = (
    Column("run", lambda row: _name(row.listing)),
    Column("name", lambda row: row.listing.name),
    Column("begun (UTC)", lambda row: row.listing.created_at[:16].replace("T", " "), "whole"),
    Column("state", lambda row: name_state(row.listing.state)),
    Column("done", _count(_write_done), "number"),
    Column("pass", _count(lambda counts: str(counts.passed)), "number"),
    Column("fail", _count(lambda counts: str(counts.failed)), "number"),
    Column("errors", _count(lambda counts: str(counts.errors)), "number"),
    Column("mean", lambda row: _write_means(row.outcome), "number"),
    Column("cost", lambda row: _write_cost(row.outcome), "number"),
)
