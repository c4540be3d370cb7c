"""What was changed in a text, line by line, as a patch says it. Pure.

Rules: whatever the texts are, it takes little time: two that differ in too much, or are too hard to compare,
are told as one block taken away and one put there. Lines beyond a limit are not shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MOST_EDITS: Final = 600
AROUND: Final = 3
"""Lines that did not change, shown before and after those that did."""
LONGEST_LINE: Final = 2_000
Edit = tuple[str, str]
"""` `, `-` or `+`, and a line."""


@dataclass(slots=True)
class Effort:
    """How many lines may still be held against others: for one pair of texts, or for many together."""

    left: int = 3_000_000


def write_patch(old: str, new: str, most_lines: int, effort: Effort | None = None) -> str:
    """The hunks of a patch from one text to another; empty where they are the same."""
    told: list[str] = []
    for line in _write_hunks(compare_lines(_split(old), _split(new), effort)):
        if len(told) == most_lines:
            return "\n".join([*told, "(more lines were changed)"])
        told.append(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} (…)")
    return "\n".join(told)


def compare_lines(old: Sequence[str], new: Sequence[str], effort: Effort | None = None) -> list[Edit]:
    """How one row of lines becomes another, in few edits."""
    start, stop = _common_ends(old, new)
    one, other = old[start : len(old) - stop], new[start : len(new) - stop]
    path = _find_path(one, other, effort or Effort()) if one and other else None
    middle = [*(("-", line) for line in one), *(("+", line) for line in other)]
    return [
        *((" ", line) for line in old[:start]),
        *(middle if path is None else _walk_back(one, other, path)),
        *((" ", line) for line in old[len(old) - stop :]),
    ]


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]} (no newline at the end)"]


def _common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    left = shorter - start
    return start, next((at for at in range(left) if old[-1 - at] != new[-1 - at]), left)


def _find_path(old: Sequence[str], new: Sequence[str], effort: Effort) -> list[list[int]] | None:
    """How far each diagonal comes with 0, 1, 2, … edits (Myers 1986); None where it takes too much."""
    most = min(MOST_EDITS, len(old) + len(new))
    reached, path = [0] * (2 * most + 3), list[list[int]]()
    for edits in range(most + 1):
        path.append(reached[most + 1 - edits - 1 : most + 1 + edits + 2])
        for diagonal in range(-edits, edits + 1, 2):
            at = began = _step(reached, most + 1 + diagonal, edits, diagonal)
            while at < len(old) and 0 <= at - diagonal < len(new) and old[at] == new[at - diagonal]:
                at += 1
            reached[most + 1 + diagonal] = at
            effort.left -= at - began + 1
            if at >= len(old) and at - diagonal >= len(new):
                return path
        if effort.left < 0:
            return None
    return None


def _step(reached: Sequence[int], place: int, edits: int, diagonal: int) -> int:
    """Where a diagonal is entered: by a line put there, or by one taken away."""
    is_put = diagonal == -edits or (diagonal != edits and reached[place - 1] < reached[place + 1])
    return reached[place + 1] if is_put else reached[place - 1] + 1


def _walk_back(old: Sequence[str], new: Sequence[str], path: Sequence[Sequence[int]]) -> list[Edit]:
    at, other, told = len(old), len(new), list[Edit]()
    for edits in range(len(path) - 1, -1, -1):
        before, diagonal = path[edits], at - other
        place = edits + 1 + diagonal
        is_put = diagonal == -edits or (diagonal != edits and before[place - 1] < before[place + 1])
        came = before[place + 1] if is_put else before[place - 1]
        came_other = came - (diagonal + 1 if is_put else diagonal - 1)
        entered = (came if is_put else came + 1) if edits else 0
        while at > entered:
            at, other = at - 1, other - 1
            told.append((" ", old[at]))
        if edits:
            told.append(("+", new[came_other]) if is_put else ("-", old[came]))
        at, other = came, came_other
    return told[::-1]


def _write_hunks(edits: Sequence[Edit]) -> Iterator[str]:
    changed = [place for place, (kind, _) in enumerate(edits) if kind != " "]
    if not changed:
        return
    spans, begin = list[tuple[int, int]](), changed[0]
    for place, following in zip(changed, [*changed[1:], None], strict=True):
        if following is None or following - place > 2 * AROUND:
            spans.append((max(0, begin - AROUND), min(len(edits), place + AROUND + 1)))
            begin = following if following is not None else begin
    at, old, new = 0, 1, 1
    for start, stop in spans:
        old, new = old + _count(edits[at:start], "+"), new + _count(edits[at:start], "-")
        within, at = edits[start:stop], start
        yield f"@@ -{old},{_count(within, '+')} +{new},{_count(within, '-')} @@"
        yield from (f"{kind}{line}" for kind, line in within)


def _count(edits: Sequence[Edit], other: str) -> int:
    return sum(kind != other for kind, _ in edits)
