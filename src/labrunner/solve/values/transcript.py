"""What happens in an attempt, event by event: streamed while it happens, then kept as the attempt's file.

Rules: as for every transcript (`records/facts/transcript_events`). Declared secrets are masked before an
event leaves. One JSON object a line.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from labrunner.files.strangers.masking import Masker, make_masker
from labrunner.records.facts.transcript_events import Spoken
from labrunner.solve.values.messages import ChatMessage, as_text, fingerprint, to_plain
from labrunner.solve.values.plain import as_number

MAX_TEXT: Final = 256 * 1024
"""Characters of one text that an event keeps; the middle of a longer one is left out."""
NO_SECRETS: Final = make_masker({})


def _spell(value: object) -> Any:  # noqa: ANN401 - plain JSON
    """What JSON has no word for: other libraries' numbers and texts as such, the rest as Python shows it."""
    if isinstance(value, str):
        return str.__str__(value)
    number = as_number(value)
    return repr(value) if number is None else number


_encoder: Final = msgspec.json.Encoder(enc_hook=_spell)


class Transcript:
    """One attempt's events. Written from one place at a time; closed when the attempt has ended."""

    def __init__(self, publish: Callable[[int, bytes], None], masker: Masker) -> None:
        """Take whom to tell: number of the event, and its line."""
        self._publish = publish
        self._masker = masker
        self._lines: list[bytes] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._spoken = Spoken()
        self._is_closed = False
        self.masked = 0

    def add(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - plain JSON, or what has a repr
        """Note an event."""
        if self._is_closed:
            return
        number = len(self._lines)
        line = _encoder.encode({"seq": number, "at": _now(), "event": kind, **fields})
        line, masked = self._masker.mask(line)
        self.masked += masked
        self._lines.append(line)
        self._publish(number, line)

    def number(self, messages: Iterable[ChatMessage]) -> list[int]:
        """Numbers of messages; those that are new are noted first."""
        return [self._number(message) for message in messages]

    def go_on(self, field: str, numbers: Sequence[int], *said: int) -> dict[str, Any]:
        """A conversation, as fields of the event that is added next; `said` is what follows it there."""
        return self._spoken.go_on(field, numbers, *said)

    def close(self) -> bytes:
        """End it; what the file holds."""
        self._is_closed = True
        return b"".join(line + b"\n" for line in self._lines)

    def _number(self, message: ChatMessage) -> int:
        if type(message.content) is not str:  # somebody's own number, or kind of text
            message.content = as_text(message.content)
        key = fingerprint(message)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._known)
            plain = to_plain(message)
            self.add("message", id=number, message={**plain, "content": self.shorten(plain["content"])})
        return number

    def shorten(self, text: str, most: int = MAX_TEXT) -> str:
        """A text with its middle left out where it is long, cut within no secret: halves are not found."""
        return shorten(text, most, self._masker)


@lru_cache(maxsize=2)
def _second(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _now() -> str:
    seconds, fraction = divmod(time.time(), 1)
    return f"{_second(int(seconds))}.{int(fraction * 1000):03}Z"


def shorten(text: str, most: int = MAX_TEXT, masker: Masker = NO_SECRETS) -> str:
    """A text with its middle left out where it is long."""
    if len(text) <= most:
        return text
    head = most * 3 // 4
    end, _ = _step_aside(text, head, masker)
    _, start = _step_aside(text, len(text) - (most - head), masker)
    return f"{text[:end]}\n[{start - end} characters left out here]\n{text[start:]}"


def _step_aside(text: str, cut: int, masker: Masker) -> tuple[int, int]:
    before = text[max(0, cut - masker.longest) : cut].encode(errors="replace")
    after = text[cut : cut + masker.longest].encode(errors="replace")
    first, last = masker.step_aside(before + after, len(before))
    return cut - len(before[first:].decode()), cut + len(after[: last - len(before)].decode())
