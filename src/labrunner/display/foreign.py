"""What is printed of foreign tasks that can't be run here: one line a reason, how many in all last."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from labrunner.display.text.console import make_line, make_table, stack
from labrunner.display.text.quantities import format_count
from labrunner.errors import InputError


def show_refusals(refused: Mapping[str, Sequence[InputError]], tasks: int) -> RenderableType:
    """Show every reason of every refused task, of so many tasks in all."""
    rows = [(task, reason.where, reason.problem) for task, reasons in refused.items() for reason in reasons]
    told = f"{len(refused):,} of {format_count(tasks, 'task')} can't be run here as they are written"
    return stack(make_table(("task", "where", "why"), rows), make_line(""), make_line(told, "yellow"))
