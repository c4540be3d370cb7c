"""Tables of columns: each column says what it is called, how its cell is told, and how it is set.

Rule: whatever a table knows of a column stands in that column; adding one touches one place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from labrunner.display.text.console import make_table, name_once
from labrunner.display.text.fitting import Fitted

T = TypeVar("T")
Setting = Literal["text", "number", "whole"]
"""Text may be folded; a number is aligned to the right; what is whole, and numbers, are never broken."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table of such things. In the order in which it is read, so not by keyword."""

    name: str
    tell: Callable[[T], str]
    setting: Setting = "text"


def tabulate(columns: Sequence[Column[T]], things: Sequence[T], *, once: bool = False) -> Fitted:
    """Make a table with a row for each thing; `once`: the first cell is left out where it repeats."""
    rows: list[Sequence[str]] = [tuple(column.tell(thing) for column in columns) for thing in things]
    return make_table(
        [column.name for column in columns],
        name_once(rows) if once else rows,
        numbers=[column.name for column in columns if column.setting == "number"],
        whole=[column.name for column in columns if column.setting == "whole"],
    )
