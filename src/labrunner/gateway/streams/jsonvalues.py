"""Objects of a JSON text that comes in any pieces: one object, JSON lines, or a list that is still written.

Rule: only where objects begin and end is followed here; whoever decodes them finds what is wrong in them.
"""

import re
from typing import Final

_TELLING: Final = re.compile(rb'["\\{}]')


class JsonValues:
    """Cuts a stream into its outermost objects."""

    def __init__(self) -> None:
        """Start before the first byte."""
        self._held = bytearray()
        self._at = 0
        self._depth = 0
        self._start = 0
        self._in_text = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Take in bytes; give the objects that ended with them."""
        self._held += piece
        found: list[bytes] = []
        while sign := _TELLING.search(self._held, self._at):
            if sign.group() == b"\\" and sign.end() == len(self._held):
                self._at = sign.start()  # what it escapes comes with the next piece
                return found
            self._at = sign.end()
            if value := self._follow(sign.group(), sign.start()):
                found.append(value)
        self._at = len(self._held)
        return found

    def _follow(self, sign: bytes, place: int) -> bytes | None:
        match sign:
            case b"\\":
                self._at += self._in_text
            case b'"':
                self._in_text = not self._in_text
            case b"{" if not self._in_text:
                self._start = place if self._depth == 0 else self._start
                self._depth += 1
            case b"}" if not self._in_text and self._depth:
                self._depth -= 1
                return self._take() if self._depth == 0 else None
            case _:
                pass
        return None

    def _take(self) -> bytes:
        value = bytes(self._held[self._start : self._at])
        del self._held[: self._at]
        self._at = self._start = 0
        return value
