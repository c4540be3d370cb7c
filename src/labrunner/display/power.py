"""What `lab plan --power PILOT` prints: which difference so many tasks and replications would show."""

from collections.abc import Sequence

from rich.console import RenderableType

from labrunner.analysis.power import Pilot, PowerGrid
from labrunner.display.console import indent, make_line, make_table, stack
from labrunner.display.quantities import format_count
from labrunner.display.report import format_figure


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
    plan = f"{format_count(grid.planned_tasks, 'task')} x {grid.planned_replications}"
    return stack(
        make_line("smallest true difference that is shown 4 times out of 5 (two-sided, 5%)", "bold"),
        make_line(_describe(grid.pilot), "dim"),
        indent(make_table(columns, rows, numbers=columns)),
        make_line(
            f"this plan, {plan}: {format_figure(grid.planned)}"
            if grid.planned is not None
            else f"this plan, {plan}: unknown, since the pilot has one replication a task"
        ),
    )


def _describe(pilot: Pilot) -> str:
    other = pilot.other or "a second variant like it"
    counted = format_count(pilot.tasks, "task")
    told = f"{other} against {pilot.baseline}, `{pilot.measure}`, variances of {counted}"
    if pilot.within is None:
        return f"{told}: {pilot.between:.4g} between tasks; no task was repeated, so only K = 1 is known"
    told += f": {pilot.between:.4g} between tasks, {pilot.within:.4g} within them"
    if pilot.correlation is not None:
        told += (
            f"; assuming that tasks hard for one are hard for the other (correlation {pilot.correlation:g})"
        )
    return told
