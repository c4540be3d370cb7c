"""The console that everything is printed on.

Rules: markup and emoji codes are off, so text from experiments and sandboxes prints as it is; a terminal
that can't show a character shows its escape instead of failing; width, colour and NO_COLOR are rich's.
"""

import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Final, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labrunner.display.text.fitting import Fitted, draw_fields
from labrunner.display.text.safetext import sanitise_line

FILE_WIDTH: Final = 120
"""Width of output that goes to a file or a pipe: ids should stay whole there."""
_SPACES_AT_END: Final = re.compile(r" +$", re.MULTILINE)


class Trimmed:
    """A stream without the spaces that rich puts at the ends of lines to fill its columns."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream
        self.encoding = stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        """Write whole lines: rich hands over a renderable at a time."""
        return self._stream.write(_SPACES_AT_END.sub("", text))

    def flush(self) -> None:
        """Pass on what was written."""
        self._stream.flush()

    def isatty(self) -> bool:
        """A terminal is never trimmed: nobody sees the spaces there."""
        return False


class Paper(Console):
    """A console that leaves it to its command what a reader who went away means for it."""

    def on_broken_pipe(self) -> None:
        """Raise what rich would turn into the exit of the whole process, with the code of a failed run."""
        raise BrokenPipeError(errno.EPIPE, "whoever read this output is gone")


def make_console(stream: TextIO | None = None) -> Console:
    """Make the console for a command's output, standard output unless told otherwise."""
    file = stream or sys.stdout
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")
    if file.isatty():
        return Paper(file=file, markup=False, emoji=False, highlight=False)
    width = None if "COLUMNS" in os.environ else FILE_WIDTH
    trimmed = cast("TextIO", Trimmed(file))  # rich asks for no more than this has
    return Paper(file=trimmed, width=width, markup=False, emoji=False, highlight=False)


def make_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Fitted:
    """Make a table; columns named in `numbers` are aligned to the right. Cells are made safe here.

    Numbers, and columns named in `whole`, are never broken.
    """
    return Fitted(columns=columns, rows=make_safe(rows), numbers=numbers, whole=whole)


def make_safe(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Make the cells of a table safe to print."""
    return [[sanitise_line(cell) for cell in row] for row in rows]


def name_once(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Leave out the first cell of a row where the row above says the same."""
    return [
        ("", *row[1:]) if number and rows[number - 1][0] == row[0] else row for number, row in enumerate(rows)
    ]


def make_fields(fields: Sequence[tuple[str, str]]) -> Table:
    """Make a list of names and values, the values in one column."""
    return draw_fields([(name, sanitise_line(value)) for name, value in fields])


def make_line(text: str, style: str = "") -> Text:
    """Make a line of prose, made safe; it wraps where the terminal ends."""
    return Text(sanitise_line(text), style=style)


def make_item(head: str, text: str, style: str = "") -> Table:
    """Make a line of prose behind a word; where it wraps, it stays behind the word."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold", style=style)
    table.add_row(Text(head), Text(sanitise_line(text)))
    return table


def make_hints(hints: Sequence[tuple[str, str]]) -> RenderableType | None:
    """Make the lines that say where to look next, below an empty one; None when there are none."""
    return stack(make_line(""), make_fields(hints)) if hints else None


def indent(renderable: RenderableType) -> Padding:
    """Move something to the right."""
    return Padding(renderable, (0, 0, 0, 2))


def stack(*parts: RenderableType | None) -> Group:
    """Put parts below each other; None is left out."""
    return Group(*(part for part in parts if part is not None))
