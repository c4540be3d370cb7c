"""Dots with intervals, one line each, for people who would rather look than read.

Plain text: it keeps within the width it is given, and draws with ASCII where the terminal knows no more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from labrunner.display.text.folding import fold
from labrunner.display.text.safetext import sanitise_line

WIDEST: Final = 100
LONGEST_LABEL: Final = 28
NARROWEST_PLOT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A value with its interval, if it has one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pens:
    """What a chart is drawn with."""

    left: str
    line: str
    dot: str
    right: str
    mark: str


UNICODE: Final = Pens(left="├", line="─", dot="●", right="┤", mark="┊")
ASCII: Final = Pens(left="|", line="-", dot="o", right="|", mark=":")


@dataclass(frozen=True, slots=True, kw_only=True)
class DotChart:
    """A chart over a common scale; `mark` draws a line through all of it, at zero say."""

    dots: Sequence[Dot]
    low: float
    high: float
    mark: float | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw within the width at hand."""
        pens = ASCII if options.ascii_only else UNICODE
        for line in draw(self, min(options.max_width, WIDEST), pens):
            yield Text(line, no_wrap=True, overflow="crop")


def fit_scale(dots: Sequence[Dot], *, within: tuple[float, float] | None = None) -> tuple[float, float]:
    """A scale that holds every dot and interval; `within` when all of them lie in there."""
    ends = [
        end
        for dot in dots
        for end in (dot.low, dot.value, dot.high)
        if end is not None and math.isfinite(end)
    ]
    low, high = min(ends), max(ends)
    if within is not None and within[0] <= low and high <= within[1]:
        return within
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - room, high + room


def draw(chart: DotChart, width: int, pens: Pens) -> list[str]:
    """The chart's lines: one a dot, and the axis."""
    labels = [list(fold(sanitise_line(dot.label), LONGEST_LABEL)) for dot in chart.dots]
    margin = max((cell_len(line) for lines in labels for line in lines), default=0)
    room = width - margin - 2
    if room < NARROWEST_PLOT:
        return []
    rows = []
    for (*above, last), dot in zip(labels, chart.dots, strict=True):
        # A long label is never cut: what differs between two of them may stand at the end.
        rows += above
        rows.append(f"{set_cell_size(last, margin)}  {_draw_dot(chart, dot, room, pens)}".rstrip())
    return [*rows, f"{'':<{margin}}  {_draw_axis(chart, room)}".rstrip()]


def _draw_dot(chart: DotChart, dot: Dot, width: int, pens: Pens) -> str:
    cells = [" "] * width
    if chart.mark is not None:
        cells[_place(chart, chart.mark, width)] = pens.mark
    if dot.low is not None and dot.high is not None:
        start, stop = _place(chart, dot.low, width), _place(chart, dot.high, width)
        cells[start : stop + 1] = pens.line * (stop + 1 - start)
        cells[start], cells[stop] = pens.left, pens.right
    cells[_place(chart, dot.value, width)] = pens.dot
    return "".join(cells)


def _draw_axis(chart: DotChart, width: int) -> str:
    cells = [" "] * width
    ticks = 5 if width >= 50 else 3
    for number in range(ticks):
        value = chart.low + (chart.high - chart.low) * number / (ticks - 1)
        text = f"{value:.3g}"
        at = min(max(0, _place(chart, value, width) - len(text) // 2), width - len(text))
        cells[at : at + len(text)] = text
    return "".join(cells)


def _place(chart: DotChart, value: float, width: int) -> int:
    share = (value - chart.low) / (chart.high - chart.low)
    return round(min(1.0, max(0.0, share)) * (width - 1))
