"""Dots with intervals as an inline picture for web pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 720
LABEL: Final = 180
ROW: Final = 26
MARGIN: Final = 24
Place = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SvgMark:
    """A value with its interval, if it has one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def draw_marks(
    marks: Sequence[SvgMark], *, within: tuple[float, float] | None = None, zero: bool = False
) -> str:
    """Draw marks over a common scale; `zero` puts a line at 0 in its middle."""
    low, high = _scale(marks, within, zero=zero)

    def place(value: float) -> float:
        return LABEL + (value - low) / (high - low) * (WIDTH - LABEL - MARGIN)

    height = ROW * len(marks) + 2 * MARGIN
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">']
    base = ROW * len(marks) + MARGIN // 2
    parts.append(f'<line class="axis" x1="{LABEL}" x2="{WIDTH - MARGIN}" y1="{base}" y2="{base}"/>')
    for number in range(5):
        value = low + (high - low) * number / 4
        parts.append(f'<text x="{place(value):.1f}" y="{base + 18}" text-anchor="middle">{value:.3g}</text>')
    if zero:
        at = place(0.0)
        parts.append(f'<line class="zero" x1="{at:.1f}" x2="{at:.1f}" y1="4" y2="{base}"/>')
    for number, mark in enumerate(marks):
        parts.extend(_draw_mark(mark, ROW * number + ROW / 2, place(mark.value), _ends(mark, place)))
    return "".join([*parts, "</svg>\n"])


def _draw_mark(mark: SvgMark, y: float, at: float, ends: tuple[float, float] | None) -> list[str]:
    label = mark.label if len(mark.label) <= 24 else f"{mark.label[:21]}..."
    parts = [f'<text x="{LABEL - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>']
    if ends is not None:
        parts.append(f'<line class="interval" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y}" y2="{y}"/>')
    parts.append(f'<circle class="dot" cx="{at:.1f}" cy="{y}" r="4"><title>{_tell(mark)}</title></circle>')
    return parts


def _ends(mark: SvgMark, place: Place) -> tuple[float, float] | None:
    return None if mark.low is None or mark.high is None else (place(mark.low), place(mark.high))


def _tell(mark: SvgMark) -> str:
    interval = "" if mark.low is None or mark.high is None else f" ({mark.low:.3f} to {mark.high:.3f})"
    return escape(f"{mark.label}: {mark.value:.3f}{interval}")


def _scale(
    marks: Sequence[SvgMark], within: tuple[float, float] | None, *, zero: bool
) -> tuple[float, float]:
    ends = [end for mark in marks for end in (mark.low, mark.value, mark.high) if end is not None]
    low, high = min(ends), max(ends)
    if within is not None and within[0] <= low and high <= within[1]:
        return within
    if zero:
        reach = max(abs(low), abs(high)) * 1.1 or 1.0
        return -reach, reach
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - room, high + room
