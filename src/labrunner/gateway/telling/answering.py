"""What a recorded answer said.

Rule: an answer that is kept as its bytes is heard as it was when it came; one of which only the words are
kept, because a secret was cut in two in its bytes, is read back.
"""

from typing import Any, Final, get_args

import msgspec

from labrunner.gateway.dialects.hearing import Hearing
from labrunner.gateway.dialects.speech import Ask, Complaint, Heard, Protocols, WantedCall
from labrunner.gateway.recording.bodies import unpack
from labrunner.gateway.streams.eventstream import looks_like_events
from labrunner.records.facts.model_call import BodyRow, CallRow

_WORDS: Final = ("response_id", "model", "stop_reason", "text", "reasoning", "refusal", "tier", "is_over")


class _ToldCall(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    arguments: str


class _Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer by its words."""

    response_id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    tier: str | None = None
    is_over: bool = False
    complaint: str | None = None
    wanted: tuple[_ToldCall, ...] = ()


def hear_answer(call: CallRow, body: BodyRow) -> Heard:
    """What an answer said. Raises ValueError for a body that is no answer."""
    if body.form == "told":
        return _read_told(body.body)
    data = unpack(body)
    if not isinstance(data, bytes) or call.protocol not in get_args(Protocols):
        raise ValueError(f"the body {body.digest} is no answer of the protocol {call.protocol!r}")
    ask = Ask(protocol=call.protocol, purpose="generate", path="")  # type: ignore[arg-type] # asked above
    kind = "text/event-stream" if looks_like_events(data) else "application/json"
    hearing = Hearing(ask, content_type=kind, encoding="")
    hearing.take(data)
    hearing.finish()
    return hearing.tell(call.status or 200)


def tell_answer(heard: Heard) -> dict[str, Any]:
    """The words of an answer, as plain JSON."""
    words = {name: getattr(heard, name) for name in _WORDS}
    told = _Told(
        **words,
        complaint=heard.complaint.message if heard.complaint else None,
        wanted=tuple(_ToldCall(id=c.id, name=c.name, arguments=c.arguments) for c in heard.wanted),
    )
    plain: dict[str, Any] = msgspec.to_builtins(told)
    return plain


def _read_told(body: object) -> Heard:
    try:
        told = msgspec.convert(body, _Told)
    except msgspec.ValidationError as error:
        raise ValueError(f"this is no answer: {error}") from error
    words = {name: getattr(told, name) for name in _WORDS}
    return Heard(
        **words,
        complaint=Complaint(kind=None, message=told.complaint) if told.complaint else None,
        wanted=tuple(WantedCall(id=c.id, name=c.name, arguments=c.arguments) for c in told.wanted),
    )
