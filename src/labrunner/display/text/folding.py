"""Names that are too long for their column: broken where they have a joint, not in the middle of a word."""

import re
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_PARTS: Final = re.compile(r"[^-_/.:,]*[-_/.:,]?")
NARROWEST: Final = 8


class Name:
    """One word, made safe already."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self._text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """As wide as it is, and not much narrower than can be read."""
        width = cell_len(self._text)
        return Measurement(min(width, NARROWEST), width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fold to the width at hand."""
        for line in fold(self._text, options.max_width):
            yield Text(line, justify=options.justify, no_wrap=True)


def fold(text: str, width: int) -> Iterator[str]:
    """Lines no wider than `width`, broken after a joint where there is one."""
    line = ""
    for part in _PARTS.findall(text):
        if line and cell_len(line + part) > width:
            yield line
            line = ""
        *full, line = chop_cells(line + part, max(1, width)) or [""]
        yield from full
    yield line
