"""Rows of an answer for people: a table where it fits, else a block a row, a line a column."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType

from labrunner.display.text.console import make_line, make_safe, stack
from labrunner.display.text.fitting import Fitted
from labrunner.display.text.quantities import format_count

NUMBERS: Final = ("INT", "DOUBLE", "FLOAT", "DECIMAL")
LONGEST: Final = 200
READABLE: Final = 20
"""A column may be folded down to this width; below, nobody reads it."""


def show_rows(
    columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[str]], *, more: int = 0
) -> RenderableType:
    """Show rows; `more` says how many were left out."""
    unique = [f"{name}{' ' * columns[:number].count(name)}" for number, name in enumerate(columns)]
    numbers = [name for name, kind in zip(unique, types, strict=True) if _is_number(kind)]
    cut = [[_clip(cell) for cell in row] for row in rows]
    return stack(
        Fitted(
            columns=make_safe([unique])[0],
            rows=make_safe(cut),
            numbers=make_safe([numbers])[0],
            headings=[f"row {number}" for number in range(1, len(rows) + 1)],
            readable=READABLE,
        ),
        make_line(f"and {format_count(more, 'more row')}; --format csv or json gives all") if more else None,
    )


def _is_number(kind: str) -> bool:
    return (
        any(word in kind for word in NUMBERS) and "(" not in kind.removeprefix("DECIMAL") and "[" not in kind
    )


def _clip(cell: str) -> str:
    return cell if len(cell) <= LONGEST else f"{cell[:LONGEST]}..."
