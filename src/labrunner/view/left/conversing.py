"""What was said in an attempt, a page at a time: its transcript, its calls to models, or its agent's events.

Rule: events are foreign JSON: fields are asked for, never relied on, and what is long is cut with a mark.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from labrunner.records.completion import FileRef
from labrunner.store.reading.conversations import read_said
from labrunner.store.reading.events import read_agent_events

LONGEST: Final = 20_000
"""Characters of one entry; the whole stands in the transcript, to be downloaded."""
MOST_ENTRIES: Final = 200
_OF_MODELS: Final = ("model", "seconds", "usage", "stop_reason", "error")
_Event = Mapping[str, Any]  # foreign JSON


def read_conversation(folder: Path, logs: Sequence[FileRef] | None, offset: int) -> dict[str, object]:
    """A page of what was said in an attempt; `logs` are those that its row names, to be held to it."""
    said: list[_Event] = [*read_said(folder, logs)]
    return page_of(iter(said or list(decode(map(bytes, read_agent_events(folder))))), offset)


def decode(lines: Iterator[bytes]) -> Iterator[_Event]:
    """Events from their lines; what is none is left out."""
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def page_of(events: Iterator[_Event], offset: int) -> dict[str, object]:
    """A page of entries, and whether there are more."""
    entries = (entry for event in events for entry in _tell(event))
    page = list(islice(entries, offset, offset + MOST_ENTRIES + 1))
    return {"offset": offset, "entries": page[:MOST_ENTRIES], "has_more": len(page) > MOST_ENTRIES}


def _tell(event: _Event) -> Iterator[dict[str, object]]:
    at = event.get("at")
    match event.get("event"):
        case "message":
            said = _tell_message(_mapping(event.get("message")))
            yield {"kind": "message", "at": at, "thread": event.get("thread"), **said}
        case "model":
            told = {name: event.get(name) for name in _OF_MODELS}
            yield {"kind": "model", "at": at, **{key: value for key, value in told.items() if value}}
        case "score":
            why = event.get("explanation") or event.get("answer")
            judged = f"{event.get('scorer')} = {_write(event.get('value'))}"
            yield {"kind": "score", "at": at, "text": f"{judged}\n{_write(why)}" if why else judged}
        case "retry" | "limit" | "error" as kind:
            yield {"kind": kind, "at": at, "text": _write(event.get("message"))}
        case "sandbox":
            done = event.get("command") or event.get("file") or ""
            yield {"kind": "sandbox", "at": at, "text": f"{event.get('action')} {_write(done)}"}
        case None if "role" in event:
            yield {"kind": "message", "at": at, **_tell_message(event)}
        case _:
            return  # for programs: what it says stands in messages too


def _tell_message(message: _Event) -> dict[str, object]:
    calls = message.get("tool_calls")
    return {
        "role": str(message.get("role")),
        "name": message.get("function"),
        "text": _write(message.get("content") or ""),
        "trouble": _write(trouble) if (trouble := message.get("error")) else None,
        "calls": [
            {"function": str(call.get("function")), "arguments": _write(call.get("arguments") or {})}
            for call in (calls if isinstance(calls, Sequence) else ())
            if isinstance(call, dict)
        ],
    }


def _mapping(value: object) -> _Event:
    return value if isinstance(value, dict) else {}


def _write(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    left_out = len(text) - LONGEST
    return text if left_out <= 0 else f"{text[:LONGEST]}\n({left_out:,} more characters)"
