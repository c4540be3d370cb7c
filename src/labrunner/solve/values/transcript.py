"""What happens in an attempt, event by event: streamed while it happens, then kept as the attempt's file.

Rules: each message stands in it once; model calls name messages by number, and of a conversation that goes on
only what is new (`after`: with how much of the one before it begins), so that a long conversation costs its
length and not its square. Declared secrets are masked before an event leaves. One JSON object a line.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from labrunner.files.strangers.masking import Masker
from labrunner.records.encoding import canonical
from labrunner.solve.values.messages import ChatMessage, as_text, fingerprint, to_plain
from labrunner.solve.values.plain import as_number

MAX_TEXT: Final = 256 * 1024
"""Characters of one text that an event keeps; the middle of a longer one is left out."""
_CONVERSATIONS: Final = {"model": "input", "scoring": "messages"}
"""Events that have a conversation, and the field that holds it."""


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
        self._spoken: list[int] = []
        """The conversation of the last event that had one."""
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
        after = _count_common(self._spoken, numbers)
        self._spoken[after:] = [*numbers[after:], *said]
        told = {field: to_ranges(numbers[after:])}
        return {"after": after, **told} if after else told

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
            self.add("message", id=number, message=_shortened(to_plain(message)))
        return number


@lru_cache(maxsize=2)
def _second(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _now() -> str:
    seconds, fraction = divmod(time.time(), 1)
    return f"{_second(int(seconds))}.{int(fraction * 1000):03}Z"


def read_events(data: bytes) -> list[dict[str, Any]]:
    """Events of a transcript; a torn last line is passed over."""
    whole = data[: data.rfind(b"\n") + 1]
    events: list[dict[str, Any]] = []
    for line in whole.splitlines():
        plain = canonical.decode_plain(line)
        if isinstance(plain, dict):
            events.append(plain)
    return events


def read_conversation(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as the solver left them, plain; of an attempt that failed, as far as it came."""
    known = known_messages(events)
    seen: Sequence[int] = ()
    for event, seen in follow_conversations(events):
        if event["event"] == "scoring":
            return [known[number] for number in seen]
    later = [number for number in sorted(known) if not seen or number > seen[-1]]
    return [known[number] for number in (*seen, *later)]


def has_conversation(event: Mapping[str, Any]) -> bool:
    """Whether an event names messages of a conversation."""
    return event["event"] in _CONVERSATIONS


def follow_conversations(
    events: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], Sequence[int]]]:
    """Each event that has a conversation, with the numbers of its messages.

    The numbers hold until the next event is asked for; then an answer is among them.
    """
    spoken: list[int] = []
    for event in events:
        field = _CONVERSATIONS.get(event["event"])
        if field is not None:
            spoken[event.get("after", 0) :] = expand(event[field])
            yield event, spoken
            if field == "input":
                spoken.append(event["output"])


def known_messages(events: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Every message by its number."""
    return {event["id"]: event["message"] for event in events if event["event"] == "message"}


def last_call(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last answer of a model."""
    calls = [event for event in events if event["event"] == "model"]
    return calls[-1] if calls else None


def to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as ranges, first and last."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _count_common(before: Sequence[int], now: Sequence[int]) -> int:
    """How many numbers two conversations begin with alike."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))


def expand(ranges: Sequence[Sequence[int]]) -> list[int]:
    """The numbers that ranges stand for."""
    return [number for first, last in ranges for number in range(first, last + 1)]


def shorten(text: str, most: int = MAX_TEXT) -> str:
    """A text with its middle left out where it is long."""
    if len(text) <= most:
        return text
    head = most * 3 // 4
    tail = most - head
    return f"{text[:head]}\n[{len(text) - most} characters left out here]\n{text[-tail:]}"


def _shortened(plain: dict[str, Any]) -> dict[str, Any]:
    return {**plain, "content": shorten(plain["content"])} if len(plain["content"]) > MAX_TEXT else plain
