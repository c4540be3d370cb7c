"""What happened in an attempt, event by event, in words that every reader of transcripts knows. Pure.

Rules: a transcript is a list of events, each with its kind under `event`. Each message stands in it once, as
an event of its own with a number; model calls name messages by number, and of a conversation that goes on
only what is new (`after`: with how much of the one before it begins), so that a long conversation costs its
length and not its square. A call without an answer has no `output`, and an `error`. Conversations beside each
other have a `thread` each, and a `parent` where one was begun out of another.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from labrunner.records.encoding import canonical

Event = Mapping[str, Any]  # plain JSON
CONVERSATIONS: Final = {"model": "input", "scoring": "messages"}
"""Events that have a conversation, and the field that holds it."""


class Spoken:
    """The conversation of the last event that had one: what a writer of events holds."""

    def __init__(self) -> None:
        """Begin before the first word."""
        self._numbers: list[int] = []

    def go_on(self, field: str, numbers: Sequence[int], *said: int) -> dict[str, Any]:
        """A conversation, as fields of the event that is added next; `said` is what follows it there."""
        after = count_common(self._numbers, numbers)
        self._numbers[after:] = [*numbers[after:], *said]
        told = {field: to_ranges(numbers[after:])}
        return {"after": after, **told} if after else told


def read_events(data: bytes) -> list[dict[str, Any]]:
    """Events of a transcript; a torn last line is passed over."""
    whole = data[: data.rfind(b"\n") + 1]
    events: list[dict[str, Any]] = []
    for line in whole.splitlines():
        plain = canonical.decode_plain(line)
        if isinstance(plain, dict):
            events.append(plain)
    return events


def read_conversation(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The messages as the solver left them, plain; of an attempt that failed, as far as it came.

    Of several conversations beside each other it is the one that was asked for most often.
    """
    known = known_messages(events)
    if any("thread" in event for event in events):
        return [known[number] for number in _find_main(events)]
    seen: Sequence[int] = ()
    for event, seen in follow_conversations(events):
        if event["event"] == "scoring":
            return [known[number] for number in seen]
    later = [number for number in sorted(known) if not seen or number > seen[-1]]
    return [known[number] for number in (*seen, *later)]


def _find_main(events: Sequence[Event]) -> Sequence[int]:
    last: dict[int, list[int]] = {}
    asked: Counter[int] = Counter()
    for event, spoken in follow_conversations(events):
        thread = event.get("thread", 0)
        asked[thread] += 1
        last[thread] = [*spoken, event["output"]] if "output" in event else list(spoken)
    main = max(asked, key=lambda thread: (asked[thread], len(last[thread]), -thread), default=None)
    return () if main is None else last[main]


def has_conversation(event: Event) -> bool:
    """Whether an event names messages of a conversation."""
    return event["event"] in CONVERSATIONS


def follow_conversations(events: Iterable[Event]) -> Iterator[tuple[Event, Sequence[int]]]:
    """Each event that has a conversation, with the numbers of its messages.

    The numbers hold until the next event is asked for; then an answer is among them.
    """
    spoken: list[int] = []
    for event in events:
        field = CONVERSATIONS.get(event["event"])
        if field is not None:
            spoken[event.get("after", 0) :] = expand(event[field])
            yield event, spoken
            if field == "input" and "output" in event:
                spoken.append(event["output"])


def known_messages(events: Sequence[Event]) -> dict[int, dict[str, Any]]:
    """Every message by its number."""
    return {event["id"]: event["message"] for event in events if event["event"] == "message"}


def last_call(events: Sequence[Event]) -> Event | None:
    """The last answer of a model."""
    calls = [event for event in events if event["event"] == "model" and "output" in event]
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


def expand(ranges: Sequence[Sequence[int]]) -> list[int]:
    """The numbers that ranges stand for."""
    return [number for first, last in ranges for number in range(first, last + 1)]


def count_common(before: Sequence[int], now: Sequence[int]) -> int:
    """How many numbers two conversations begin with alike."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))
