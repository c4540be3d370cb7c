"""What `lab plan --power PILOT` prints: which difference so many tasks and replications would show."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType

from labrunner.analysis.comparing.power import Need, Pilot, PowerGrid
from labrunner.analysis.comparing.questions import FEWEST_UNITS
from labrunner.display.text.console import indent, make_line, make_table, stack
from labrunner.display.text.quantities import format_count, format_figure, format_seconds

BEST_CASE: Final = "no task of the pilot differed from another: this is the best case, mind the ranges below"


def show_power(grids: Sequence[PowerGrid]) -> RenderableType:
    """Show what each number of tasks and replications detects, for each pair of the pilot's variants."""
    if not grids:
        return make_line(
            "the pilot can't tell what a run would show: it needs two graded tasks, "
            "and two variants or more than one replication"
        )
    return stack(*(stack(make_line(""), _show_grid(grid)) for grid in grids))


def _show_grid(grid: PowerGrid) -> RenderableType:
    columns = ("tasks", *(f"K = {count}" for count in grid.replications))
    rows = [(f"{tasks:,}", *map(format_figure, found)) for tasks, found in grid.rows]
    is_open = any(figure is None for _, found in grid.rows for figure in found)
    return stack(
        make_line(
            "smallest true difference that is shown 4 times out of 5, on tasks like these (two-sided, "
            f"{_describe_alpha(grid.pilot.family)})",
            "bold",
        ),
        make_line(_describe(grid.pilot), "dim"),
        indent(make_table(columns, rows, numbers=columns)),
        make_line("-: nothing on this scale would be, or the pilot can't tell", "dim") if is_open else None,
        make_line(BEST_CASE, "dim") if grid.pilot.is_best_case else None,
        make_line(_describe_plan(grid)),
        *(_show_needs(grid) if grid.needs else ()),
    )


def _describe_plan(grid: PowerGrid) -> str:
    plan = f"this plan, {format_count(grid.planned_tasks, 'task')} x {grid.planned_replications}"
    if grid.planned_units < FEWEST_UNITS:
        return f"{plan}: too few to speak of other tasks; it takes {FEWEST_UNITS} tasks (or groups of them)"
    if not grid.pilot.can_show(grid.planned_units):
        return f"{plan}: so few show nothing where {grid.pilot.family} comparisons share the 5%"
    if grid.planned is None and grid.pilot.within is None and grid.planned_replications > 1:
        return f"{plan}: unknown, since the pilot has one replication a task"
    if grid.planned is None and not grid.pilot.has_spread:
        return f"{plan}: unknown, since the pilot's scores did not differ, so it saw no luck"
    if grid.planned is None:
        return f"{plan}: no difference on this scale would be shown 4 times out of 5"
    low, high = format_figure(grid.planned_low), format_figure(grid.planned_high)
    planned = format_figure(grid.planned)
    if low == high:
        return f"{plan}: no less than {planned}, for a difference brings so much luck of its own"
    if grid.planned_high is None:
        return (
            f"{plan}: {planned} (from {low}, for the pilot is itself only a sample: it may be out of reach)"
        )
    return f"{plan}: {planned} ({low} to {high}, for the pilot is itself only a sample)"


def _describe_alpha(family: int) -> str:
    return "5%" if family == 1 else f"5% shared by {family} comparisons, Holm"


def _show_needs(grid: PowerGrid) -> list[RenderableType]:
    columns = ("K", "tasks", "80% range", "trials", "cost (USD)", "time")
    return [
        make_line(""),
        make_line(
            f"to show a true difference of {grid.detect:g} 4 times out of 5, with "
            f"{'both' if grid.pilot.family == 1 else f'all {grid.pilot.family + 1}'} variants:",
            "bold",
        ),
        indent(make_table(columns, [_describe_need(need) for need in grid.needs], numbers=columns)),
    ]


def _describe_need(need: Need) -> tuple[str, ...]:
    return (
        str(need.replications),
        "-" if need.tasks is None else f"{need.tasks:,}",
        f"{_count(need.tasks_low)} to {_count(need.tasks_high)}",
        _count(need.trials),
        "-" if need.cost_usd is None else f"{need.cost_usd:,.2f}",
        "-" if need.time_s is None else format_seconds(need.time_s),
    )


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _describe(pilot: Pilot) -> str:
    other = pilot.other or "a second variant like it"
    counted = format_count(pilot.tasks, "task")
    told = f"{other} against {pilot.baseline}, `{pilot.measure}`, variances of {counted}"
    groups = f", {pilot.between_groups:.4g} between groups" if pilot.between_groups else ""
    if pilot.within is None:
        told += f": {pilot.between:.4g} between tasks{groups}; no task was repeated, so only K = 1 is known"
        return told
    told += f": {pilot.between:.4g} between tasks{groups}, {pilot.within:.4g} within them"
    if pilot.correlation is not None:
        told += (
            f"; assuming that tasks hard for one are hard for the other (correlation {pilot.correlation:g})"
        )
    return told
