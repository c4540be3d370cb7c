"""Text that a sandbox wrote, in pieces with the few styles that pages have; all else is shown, not done.

Rule: colours and weight of SGR sequences become names of styles; every other control character, and what
hides or turns text around, stands there as an escape (`labrunner.display.text.safetext`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from labrunner.display.text.safetext import sanitise

_SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")
MOST_PIECES: Final = 5_000
"""A text that changes its style more often is shown without styles from there on."""


_SGR_BYTES: Final = re.compile(_SGR.pattern.encode())


def strip_styles(data: bytes) -> bytes:
    """Bytes of a text without what colours it: a word may change its colour in its middle."""
    return _SGR_BYTES.sub(b"", data) if b"\x1b" in data else data


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    colour: int | None = None
    is_bold: bool = False
    is_dim: bool = False

    @property
    def name(self) -> str:
        words = ("b" if self.is_bold else "", "d" if self.is_dim else "")
        colour = "" if self.colour is None else f"c{self.colour}"
        return " ".join(word for word in (*words, colour) if word)


_PLAIN: Final = _Style()


def style(text: str) -> list[tuple[str, str]]:
    """The text in pieces: names of styles, and what is written in them."""
    pieces: list[tuple[str, str]] = []
    for name, part in _split(text):
        if pieces and (pieces[-1][0] == name or len(pieces) >= MOST_PIECES):
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + part)
        else:
            pieces.append((name, part))
    return pieces


def _split(text: str) -> Iterator[tuple[str, str]]:
    now, at = _PLAIN, 0
    for found in _SGR.finditer(text):
        if found.start() > at:
            yield now.name, sanitise(text[at : found.start()])
        now, at = _change(now, found[1]), found.end()
    if at < len(text):
        yield now.name, sanitise(text[at:])


def _change(now: _Style, codes: str) -> _Style:
    words = iter(codes.split(";"))
    for word in words:
        code = int(word[:4] or 0)
        # A colour of 256 or of millions has words of its own, which are passed over.
        now = _take_long(now, code, words) if code in {38, 48} else _change_one(now, code)
    return now


def _take_long(now: _Style, code: int, words: Iterator[str]) -> _Style:
    kind = next(words, "")
    given = [next(words, "") for _ in range({"5": 1, "2": 3}.get(kind, 0))]
    if code == 38 and kind == "5" and given[0].isdecimal() and int(given[0][:4]) < 16:
        return replace(now, colour=int(given[0]) % 8)
    return now


def _change_one(now: _Style, code: int) -> _Style:
    match code:
        case 0:
            return _PLAIN
        case 1:
            return replace(now, is_bold=True)
        case 2:
            return replace(now, is_dim=True)
        case 22:
            return replace(now, is_bold=False, is_dim=False)
        case 39:
            return replace(now, colour=None)
        case _ if 30 <= code <= 37 or 90 <= code <= 97:
            return replace(now, colour=code % 10)
        case _:
            return now
