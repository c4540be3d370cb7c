"""Server-sent events, taken from bytes that come in any pieces.

Rules: the `raw` bytes of all events, and what `rest` holds at the end, are the stream's bytes. Lines end with
LF, CR or CRLF, wherever a piece ends; comments (pings) are events without data. Nothing is raised.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_MARK: Final = b"\xef\xbb\xbf"
_STARTS: Final = (b"data:", b"event:", b"id:", b"retry:", b":", _MARK)


def looks_like_events(data: bytes) -> bool:
    """Whether bytes of an answer are a stream of events, where no header says so any more."""
    return data.lstrip(b"\r\n").startswith(_STARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One event: everything up to and with an empty line."""

    name: str
    """Empty where the stream gave none."""
    data: str
    raw: bytes


class EventStream:
    """Cuts a stream into its events."""

    def __init__(self) -> None:
        """Start before the first byte."""
        self._held = bytearray()
        self._line_start = 0
        self._searched = 0
        self._lines: list[bytes] = []

    @property
    def rest(self) -> bytes:
        """Bytes of an event that has not ended."""
        return bytes(self._held)

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """Take in bytes; give the events that ended with them."""
        if not self._held and _is_one_event(piece):
            return [_make_event(piece, piece[:-2].split(b"\n"))]
        self._held += piece
        events: list[StreamEvent] = []
        while end := _LINE_END.search(self._held, self._searched):
            if end.group() == b"\r" and end.end() == len(self._held):
                self._searched = end.start()  # its LF may come with the next piece
                return events
            line = bytes(self._held[self._line_start : end.start()])
            self._line_start = self._searched = end.end()
            if line:
                self._lines.append(line)
            else:
                events.append(self._close())
        self._searched = len(self._held)
        return events

    def finish(self) -> list[StreamEvent]:
        """The stream is over: an event without its empty line was cut, unless only its LF was awaited."""
        if self._held.endswith(b"\r") and self._line_start == len(self._held) - 1:
            self._line_start = len(self._held)
            return [self._close()]
        return []

    def _close(self) -> StreamEvent:
        raw = bytes(self._held[: self._line_start])
        del self._held[: self._line_start]
        self._line_start = self._searched = 0
        lines, self._lines = self._lines, []
        return _make_event(raw, lines)


def _is_one_event(piece: bytes) -> bool:
    """Whether it is nothing else, in lines of the plain kind: so most of them come."""
    return 0 < piece.find(b"\n\n") == len(piece) - 2 and b"\r" not in piece and not piece.startswith(b"\n")


def _make_event(raw: bytes, lines: Iterable[bytes]) -> StreamEvent:
    name, data = "", []
    for line in lines:
        field, _, value = line.removeprefix(_MARK).partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value.decode("utf-8", "replace"))
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return StreamEvent(name=name, data="\n".join(data), raw=raw)
