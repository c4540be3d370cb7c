"""Tables for any width: where one can't be read as a table, each of its rows becomes a block of lines."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labrunner.display.text.folding import NARROWEST, Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A table whose cells are made safe already."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[str] = ()
    """Columns aligned to the right, and kept whole."""
    whole: Sequence[str] = ()
    """Other columns that are kept whole."""
    headings: Sequence[str] | None = None
    """What stands above the rows' blocks; unless told, their first cells."""
    readable: int = NARROWEST
    """Other columns may be folded down to this width."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw a table, or blocks."""
        if self._least_width() <= options.max_width:
            yield self._draw_table()
        elif self.headings is None:
            for row in self.rows:
                yield from _draw_block(row[0], self.columns[1:], row[1:])
        else:
            for heading, row in zip(self.headings, self.rows, strict=True):
                yield from _draw_block(heading, self.columns, row)

    def _draw_table(self) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for column in self.columns:
            table.add_column(
                column,
                justify="right" if column in self.numbers else "left",
                overflow="fold",
                no_wrap=self._is_whole(column),
            )
        for row in self.rows:
            table.add_row(*map(_make_cell, row))
        return table

    def _least_width(self) -> int:
        between = 2 * (len(self.columns) - 1)
        return between + sum(self._least(number, name) for number, name in enumerate(self.columns))

    def _least(self, number: int, name: str) -> int:
        widest = max(map(cell_len, (name, *(row[number] for row in self.rows))))
        return widest if self._is_whole(name) else min(widest, self.readable)

    def _is_whole(self, name: str) -> bool:
        return name in self.numbers or name in self.whole


def draw_fields(fields: Sequence[tuple[str, str]]) -> Table:
    """Names and values, the values in one column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(Text(name), Text(value))
    return table


def _draw_block(heading: str, columns: Sequence[str], row: Sequence[str]) -> RenderResult:
    if heading:
        yield Text(heading, style="bold")
    yield Padding(draw_fields(list(zip(columns, row, strict=True))), (0, 0, 0, 2))


def _make_cell(text: str) -> RenderableType:
    return Text(text) if " " in text else Name(text)
