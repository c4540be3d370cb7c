"""A Python task's transcript as people read it: who said what, tools, trouble, the score.

Rules: lines that are no event of ours are left out, since a file read from its end begins in the middle of
one; every text passes through `safetext`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType

from labrunner.display.text.console import make_line, stack
from labrunner.display.text.fitting import draw_fields
from labrunner.display.text.safetext import sanitise, sanitise_line

SHOWN: Final = 20
"""Entries from the end; the file has all of them."""
LONGEST: Final = 600
"""Characters of one entry."""

_Event = Mapping[str, Any]  # foreign JSON: fields are asked for, never relied on


def show_conversation(transcript: str) -> RenderableType | None:
    """Show the last entries of a transcript; None where nothing in it is for people."""
    entries = [entry for event in _read(transcript) for entry in _tell(event)]
    if not entries:
        return None
    left_out = len(entries) - SHOWN
    fields = [(sanitise_line(who), _shorten(said)) for who, said in entries[-SHOWN:]]
    return stack(
        make_line(f"({left_out} earlier entries)") if left_out > 0 else None,
        draw_fields(fields),
    )


def _read(transcript: str) -> Iterator[_Event]:
    for line in transcript.split("\n"):  # messages may hold other line separators as they are
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _tell(event: _Event) -> Iterator[tuple[str, str]]:
    match event.get("event"):
        case "message":
            yield from _tell_message(event.get("message") or {})
        case "retry":
            yield "retry", f"{event.get('message')}; waited {event.get('wait_s') or 0:.1f} s"
        case "limit":
            yield "limit", str(event.get("message"))
        case "error":
            yield "error", f"{event.get('cause')}: {event.get('message')}"
        case "score":
            yield "score", _tell_score(event)
        case _:
            pass  # for programs: what it says stands in messages too


def _tell_message(message: _Event) -> Iterator[tuple[str, str]]:
    role = str(message.get("role"))
    name = message.get("function") if role == "tool" else None
    who = f"{role} {name}" if name else role
    calls = message.get("tool_calls") or ()
    trouble = message.get("error")
    if message.get("content") or not (calls or trouble):
        yield who, _to_text(message.get("content") or "")
    if trouble:
        yield f"{who} error", _tell_trouble(trouble)
    for call in calls:
        given = ", ".join(
            f"{key}={_to_text(value)!r}" for key, value in (call.get("arguments") or {}).items()
        )
        yield f"{who} calls", f"{call.get('function')}({given})"


def _tell_trouble(trouble: object) -> str:
    if not isinstance(trouble, dict):
        return _to_text(trouble)
    return f"{trouble.get('type')}: {_to_text(trouble.get('message'))}"


def _tell_score(event: _Event) -> str:
    told = f"{event.get('scorer')} = {_to_text(event.get('value'))}"
    why = event.get("explanation") or event.get("answer")
    return f"{told}: {_to_text(why)}" if why else told


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shorten(text: str) -> str:
    """The beginning and the end of what was said."""
    safe = sanitise(text).rstrip("\n")
    if len(safe) > LONGEST:
        half = LONGEST // 2
        safe = f"{safe[:half]} (… {len(safe) - LONGEST} more characters …) {safe[-half:]}"
    return safe
