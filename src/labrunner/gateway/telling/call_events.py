"""Calls of an attempt told as the events of a transcript, so that whoever reads one reads any agent's.

Rules: as for every transcript (`records/facts/transcript_events`). Tries that failed are `retry` events
before their call; a call without an answer is one all the same, with what went wrong. Calls that say nothing
(lists of models, counting tokens) are left out. What is not kept of a call is said in its place.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from labrunner.gateway.dialects.speech import Heard
from labrunner.gateway.recording.bodies import put_together
from labrunner.gateway.telling.answering import hear_answer
from labrunner.gateway.telling.pieces_of_speech import Plain, make_answer, make_call
from labrunner.gateway.telling.requesting import SaidRequest, read_request
from labrunner.gateway.telling.said_in_gemini import name_calls
from labrunner.gateway.telling.threads import Thread, Threads
from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import BodyRow, CallRow, CallTry
from labrunner.records.facts.transcript_events import Spoken

Bodies = Mapping[str, BodyRow]
_SPEAKING: Final = frozenset({"generate", "unknown"})
_NOT_KEPT: Final = "[what was said is not kept]"
_FILTERED: Final = frozenset({"content_filter", "refusal", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"})
_STOPS: Final = {
    "stop": "stop",
    "completed": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "STOP": "stop",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "MAX_TOKENS": "max_tokens",
    "model_context_window_exceeded": "model_length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}
"""Why answers ended, in the words of transcripts."""


@dataclass(slots=True)
class CallTeller:
    """Tells calls one after the other, in the order in which they arrived."""

    _numbers: dict[str, int] = field(default_factory=dict)
    _messages: list[Plain] = field(default_factory=list)
    _spoken: Spoken = field(default_factory=Spoken)
    _told: int = 0
    _threads: Threads = field(init=False)

    def __post_init__(self) -> None:
        """Let conversations ask what messages are."""
        self._threads = Threads(
            is_opening=lambda number: self._messages[number]["role"] == "system",
            is_answer=lambda number: self._messages[number]["role"] == "assistant",
        )

    def tell(self, call: CallRow, bodies: Bodies) -> list[Plain]:
        """The events of a call; `bodies` are all that its attempt has."""
        if call.purpose not in _SPEAKING:
            return []
        first, events = self._told, list(self._make(call, bodies))
        self._told += len(events)
        return [{"seq": first + at, **event} for at, event in enumerate(events)]

    def _make(self, call: CallRow, bodies: Bodies) -> Iterator[Plain]:
        asked, heard = _read_asked(call, bodies), _hear(call, bodies)
        known = len(self._messages)
        numbers = [self._number(message) for message in asked.messages]
        thread, spoken = self._threads.place(numbers, asked.continues)
        yield from self._introduce(known, call.started_at, thread)
        yield from (_tell_try(each, thread) for each in call.tries)
        known = len(self._messages)
        said = None if heard is None else self._number(_make_message(heard, call))
        yield from self._introduce(known, call.ended_at, thread)
        self._threads.note(
            thread,
            spoken,
            said,
            response_id=heard.response_id if heard else None,
            waits_for_tool=bool(heard and heard.wanted),
        )
        went_on = self._spoken.go_on("input", spoken, *([] if said is None else [said]))
        yield _tell_call(call, asked, thread) | went_on | _tell_outcome(call, heard, said)

    def _number(self, message: Plain) -> int:
        key = _make_key(message)
        if key not in self._numbers:
            self._numbers[key] = len(self._messages)
            self._messages.append(message)
        return self._numbers[key]

    def _introduce(self, known: int, at: str, thread: Thread) -> Iterator[Plain]:
        """Tell messages that are new, before they are named."""
        for number in range(known, len(self._messages)):
            message = self._messages[number]
            yield {"event": "message", "at": at, "id": number, "message": message, "thread": thread.number}


def tell_calls(calls: Iterable[CallRow], bodies: Bodies) -> Iterator[Plain]:
    """The events of all calls of an attempt."""
    teller = CallTeller()
    for call in calls:
        yield from teller.tell(call, bodies)


def _read_asked(call: CallRow, bodies: Bodies) -> SaidRequest:
    if call.request is None:
        return SaidRequest(config={})
    try:
        return read_request(call.protocol, put_together(call.request, bodies))
    except (KeyError, ValueError):
        return SaidRequest(messages=({"role": "user", "content": _NOT_KEPT},), config={})


def _hear(call: CallRow, bodies: Bodies) -> Heard | None:
    """What an answer said; None where it said nothing."""
    if call.answer is None:
        return None
    try:
        heard = hear_answer(call, bodies[call.answer])
    except (KeyError, ValueError):
        return Heard(text=_NOT_KEPT) if call.end == "answered" else None
    has_words = heard.text or heard.wanted or heard.reasoning or heard.refusal
    return heard if has_words or call.end == "answered" else None


def _make_message(heard: Heard, call: CallRow) -> Plain:
    calls = name_calls([make_call(each.id, each.name, each.arguments) for each in heard.wanted])
    text = heard.text or heard.refusal or ""
    return make_answer(text, calls, reasoning=heard.reasoning, model=heard.model or call.model)


def _make_key(message: Plain) -> str:
    """What makes two messages the same: clients leave out reasoning and names, and trim answers."""
    calls = [(call["id"], call["function"], call["arguments"]) for call in message.get("tool_calls", ())]
    text = message["content"].strip() if message["role"] == "assistant" else message["content"]
    error = message.get("error")
    return canonical.digest((message["role"], text, calls, message.get("tool_call_id"), error))


def _tell_try(failed: CallTry, thread: Thread) -> Plain:
    reason = "connection" if failed.status is None else f"http_{failed.status}"
    return {
        "event": "retry",
        "at": failed.started_at,
        "reason": reason,
        "message": failed.error or reason,
        "wait_s": failed.waited_s,
        "thread": thread.number,
    }


def _tell_call(call: CallRow, asked: SaidRequest, thread: Thread) -> Plain:
    told: Plain = {
        "event": "model",
        "at": call.ended_at,
        "model": f"{call.provider}/{call.model or 'unknown'}",
        "tools": list(asked.tools),
        "config": dict(asked.config),
        "thread": thread.number,
        "call": call.ordinal,
    }
    return told if thread.parent is None else {**told, "parent": thread.parent}


def _tell_outcome(call: CallRow, heard: Heard | None, said: int | None) -> Plain:
    told: Plain = {
        "stop_reason": _find_stop(heard),
        "usage": _write_usage(call),
        "seconds": _count_seconds(call),
    }
    if said is not None:
        told["output"] = said
    if call.taken_out:
        told["taken_out"] = list(call.taken_out)
    if call.replayed is not None:
        told["replayed"] = True
    if call.end != "answered":
        told["error"] = _tell_error(call)
    return told


def _tell_error(call: CallRow) -> Plain:
    kind = call.error.kind if call.error else None
    message = call.error.message if call.error else "the client left before the answer came"
    told = {"end": call.end, "kind": kind, "status": call.status, "message": message}
    return {name: value for name, value in told.items() if value is not None}


def _find_stop(heard: Heard | None) -> str:
    reason = heard.stop_reason if heard else None
    if heard is None or reason is None:
        return "unknown"
    if heard.wanted:
        return "tool_calls"
    return "content_filter" if reason in _FILTERED else _STOPS.get(reason, "unknown")


def _write_usage(call: CallRow) -> Plain | None:
    tokens = call.tokens
    if tokens is None:
        return None
    used: Plain = {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "input_tokens_cache_read": tokens.cache_read,
        "input_tokens_cache_write": tokens.cache_write,
        "reasoning_tokens": tokens.reasoning,
        "cost_usd": call.cost_usd,
    }
    return used if tokens.basis == "reported" else {**used, "basis": tokens.basis}


def _count_seconds(call: CallRow) -> float:
    try:
        between = datetime.fromisoformat(call.ended_at) - datetime.fromisoformat(call.started_at)
    except ValueError:
        return 0.0
    return between.total_seconds()
