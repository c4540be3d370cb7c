"""Messages among an agent's events, in the shapes that agents and providers write them.

Rules: an event is a message if it is, or holds under `message`, a map with a `role`. Content may be text,
null or a list of parts; calls of tools stand beside it, as chat completions have them, or among the parts.
What has no text stays as the name of its kind in brackets: nothing that was said is dropped silently.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

Plain = dict[str, Any]  # JSON, as an `.eval` log has it

_SAID: Final = frozenset({"content", "tool_calls"})
_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def find_messages(event: object) -> Iterator[Plain]:
    """The messages in an event, as an `.eval` log has them."""
    if not isinstance(event, dict):
        return
    role = event.get("role")
    if isinstance(role, str) and role in _ROLES and not _SAID.isdisjoint(event):
        yield from _read(_ROLES[role], event)
    elif isinstance(event.get("message"), dict):
        yield from find_messages(event["message"])


def _read(role: str, rest: Mapping[str, Any]) -> Iterator[Plain]:
    parts = rest.get("content")
    listed = parts if isinstance(parts, list) else []
    for part in listed:
        if _kind(part) == "tool_result":
            yield _result(part.get("tool_use_id"), part.get("content"), part)
    said = [part for part in listed if _kind(part) not in {"tool_result", "tool_use"}]
    text = _text(said if listed else parts)
    if role == "tool":
        yield _result(rest.get("tool_call_id"), text, rest)
        return
    calls = list(_calls(rest.get("tool_calls"), listed)) if role == "assistant" else []
    if listed and not text and not calls and all(_kind(part) == "tool_result" for part in listed):
        return  # all that it said was what tools had said
    yield {"role": role, "content": text} | ({"tool_calls": calls} if calls else {})


def _result(call: object, content: object, rest: Mapping[str, Any]) -> Plain:
    message: Plain = {"role": "tool", "content": _text(content)}
    if isinstance(call, str):
        message["tool_call_id"] = call
    name = rest.get("name") or rest.get("function")
    return message | ({"function": name} if isinstance(name, str) else {})


def _calls(given: object, parts: list[Any]) -> Iterator[Plain]:
    listed = [*(given if isinstance(given, list) else []), *(p for p in parts if _kind(p) == "tool_use")]
    for number, call in enumerate(listed, 1):
        if isinstance(call, dict):
            yield _call(call, f"call_{number}")


def _call(call: Mapping[str, Any], spare_id: str) -> Plain:
    inner = call.get("function")
    whole = {**call, **inner} if isinstance(inner, dict) else call
    name = whole.get("name") or (inner if isinstance(inner, str) else None)
    arguments, problem = _arguments(whole.get("arguments", whole.get("input")))
    told = {
        "id": str(call.get("id") or spare_id),
        "function": str(name or "unknown"),
        "arguments": arguments,
        "type": "function",
    }
    return told | ({"parse_error": problem} if problem else {})


def _arguments(given: object) -> tuple[Plain, str | None]:
    """What a tool was called with; text that is no JSON object is kept, and said to be none."""
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            return {"arguments": given}, f"no JSON: {error}"
    if given is None or isinstance(given, dict):
        return given or {}, None
    return {"arguments": given}, "no JSON object"


def _text(content: object) -> str:
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(filter(None, map(_part, content)))
        case _:
            return json.dumps(content, ensure_ascii=False)


def _part(part: object) -> str:
    match part:
        case str():
            return part
        case {"text": str() as text}:
            return text
        case {"type": str() as kind}:
            return f"[{kind}]"
        case _:
            return json.dumps(part, ensure_ascii=False)


def _kind(part: object) -> object:
    return part.get("type") if isinstance(part, dict) else None
