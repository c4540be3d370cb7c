"""Recorded calls of Python tasks: what was said is in the transcript, what became of it in rows. Pure.

Rules as for every tape (`tape.py`). A request is known by the digest of what was asked, which stands in its
row and in its event; an answer is given again only if the transcript has all of it: masked or shortened it
has another digest. An attempt that was cut off has a transcript and no rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from labrunner.experiment.run_policy import ReplayMode
from labrunner.gateway.replaying.difference import describe_difference
from labrunner.gateway.replaying.tape import prefer
from labrunner.records.encoding.canonical import digest_bytes
from labrunner.records.facts.model_call import CallRow
from labrunner.records.facts.transcript_events import Event, follow_conversations, known_messages

_SAID: Final = ("role", "content", "tool_calls", "tool_call_id", "function", "error")
"""What a model hears of a message."""
_encoder: Final = msgspec.json.Encoder(order="sorted", enc_hook=repr)


def digest_asked(asked: Mapping[str, Any]) -> str:
    """What is the same for requests that ask the same: `messages`, and all else that shapes an answer."""
    messages = [_pick(message) for message in asked["messages"]]
    return digest_bytes(_encoder.encode({**asked, "messages": messages}))


def digest_said(message: Mapping[str, Any]) -> str:
    """What is the same for answers that say the same."""
    return digest_bytes(_encoder.encode(_pick(message)))


def _pick(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: message[name] for name in _SAID if message.get(name) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenCall:
    """One recorded call of a Python task."""

    call_id: str
    ordinal: int
    name: str
    """`provider/model`."""
    request: str | None
    """Digest of what was asked; None where that was not noted."""
    row: CallRow | None
    event: Event | None = None
    """Of an answer."""
    messages: Sequence[Mapping[str, Any]] = ()
    """What was asked, as far as the transcript tells."""
    answer: Mapping[str, Any] | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the model answered."""
        return self.row is None or self.row.end == "answered"

    @property
    def is_whole(self) -> bool:
        """Whether there is an answer, and all of it is kept."""
        if self.answer is None or self.event is None:
            return False
        return digest_said(self.answer) == str(self.event["answer"])

    @property
    def origin(self) -> str:
        """The call that a model answered: one that was itself replayed names it."""
        return self.row.replayed if self.row is not None and self.row.replayed else self.call_id


def join_spoken(rows: Iterable[CallRow], events: Sequence[Event]) -> list[SpokenCall]:
    """The calls of one attempt, in the order in which they were made."""
    known, told = known_messages(events), dict[str, SpokenCall]()
    for event, numbers in follow_conversations(events):
        if "call_id" in event and "output" in event:
            told[event["call_id"]] = SpokenCall(
                call_id=event["call_id"],
                ordinal=len(told),
                name=event["model"],
                request=event["request"],
                row=None,
                event=event,
                messages=[known[number] for number in numbers],
                answer=known[event["output"]],
            )
    written = sorted(rows, key=lambda row: row.ordinal)
    return [_join(row, told.pop(row.call_id, None)) for row in written] + list(told.values())


def _join(row: CallRow, told: SpokenCall | None) -> SpokenCall:
    return SpokenCall(
        call_id=row.call_id,
        ordinal=row.ordinal,
        name=f"{row.provider}/{row.model}" if row.model else row.provider,
        request=row.request,
        row=row,
        event=told.event if told else None,
        messages=told.messages if told else (),
        answer=told.answer if told else None,
    )


def find_flaw(call: SpokenCall) -> str | None:
    """Why a call can't be answered as it was; None where it can."""
    if call.request is None:
        return f"what was asked in call {call.ordinal + 1} was not noted"
    if call.is_answered and not call.is_whole:
        return f"the answer of call {call.ordinal + 1} is not kept whole: it was too long, or held a secret"
    return None


@dataclass(slots=True, kw_only=True)
class SpokenTape:
    """What is left to answer with."""

    mode: ReplayMode
    calls: Sequence[SpokenCall]
    """In the order in which they are preferred."""
    cap: str | None = None
    """What a limit of money said that ended the solver then."""
    used: set[str] = field(default_factory=set)

    def take(self, name: str, request: str, ordinal: int) -> SpokenCall | None:
        """The recorded call that answers a request; None for a miss."""
        fitting = [each for each in self._find_left() if (each.name, each.request) == (name, request)]
        if not fitting:
            return None
        found = prefer(fitting, ordinal)
        self.used.add(found.origin)
        return found

    def find_cap(self, name: str, request: str) -> str | None:
        """What a limit of money said then, where no call is left that could answer."""
        is_there = any((each.name, each.request) == (name, request) for each in self._find_left())
        return None if is_there or self.mode == "reuse" else self.cap

    def describe_miss(self, name: str, asked: Mapping[str, Any], ordinal: int) -> str:
        """Say in what a request is not the one that was recorded."""
        left = [each for each in self._find_left() if each.messages]
        if not left:
            return (
                f"call {ordinal + 1}, to {name}: all {len(self.calls)} recorded calls have been answered, "
                "and this is one more"
            )
        near = prefer(left, ordinal)
        told = describe_difference(_describe(near), _describe_now(name, asked)) or "its tools"
        return f"call {ordinal + 1} is not what was recorded as call {near.ordinal + 1}: {told}"

    def _find_left(self) -> Iterable[SpokenCall]:
        return (each for each in self.calls if each.origin not in self.used and self._is_usable(each))

    def _is_usable(self, call: SpokenCall) -> bool:
        return self.mode == "strict" or call.is_whole


def _describe(call: SpokenCall) -> dict[str, Any]:
    event = call.event or {}
    return {
        "model": call.name,
        "messages": [_pick(message) for message in call.messages],
        "tools": event.get("tools", []),
        "config": event.get("config", {}),
    }


def _describe_now(name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": name,
        "messages": [_pick(message) for message in asked["messages"]],
        "tools": [each["name"] for each in asked["tools"]],
        "config": asked["config"],
    }
