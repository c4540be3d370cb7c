"""Messages as chat completions and Anthropic's messages have them: a role, and content of many shapes.

Rules: content may be text, null or a list of parts; calls of tools stand beside it, or among the parts, and
so do results. One such message may become several: what tools gave back, and what else was said.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from labrunner.gateway.telling.pieces_of_speech import (
    Plain,
    is_thought,
    make_answer,
    make_call,
    make_result,
    to_text,
    to_thought,
)

ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_RESULTS: Final = frozenset({"tool_result", "mcp_tool_result"})
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def read_turn(role: str, turn: Mapping[str, Any]) -> Iterator[Plain]:
    """The messages that one message of a request is, `role` being one of `ROLES`' values."""
    content = turn.get("content")
    parts = content if isinstance(content, list) else []
    for part in parts:
        if _kind(part) in _RESULTS:
            failed = part.get("is_error") is True
            yield make_result(part.get("tool_use_id"), part.get("content"), name=_name(part), is_error=failed)
    said = [part for part in parts if _kind(part) not in {*_RESULTS, *_CALLS} and not is_thought(part)]
    text = to_text(said if parts else content, between="" if role == "assistant" else "\n")
    match role:
        case "tool":
            yield make_result(turn.get("tool_call_id"), text, name=_name(turn))
        case "assistant":
            yield _read_answer(turn, parts, text)
        case _ if not (parts and not text and all(_kind(part) in _RESULTS for part in parts)):
            yield {"role": role, "content": text}
        case _:
            pass  # all that it said was what tools had said


def _read_answer(turn: Mapping[str, Any], parts: list[Any], text: str) -> Plain:
    given = turn.get("tool_calls")
    listed = [*(given if isinstance(given, list) else []), *(p for p in parts if _kind(p) in _CALLS)]
    if isinstance(old := turn.get("function_call"), dict):
        listed.append(old)
    calls = [_read_call(call, f"call_{at}") for at, call in enumerate(listed, 1) if isinstance(call, dict)]
    thoughts = [to_thought(part) for part in parts if is_thought(part)]
    beside = [turn.get(name) for name in ("reasoning", "reasoning_content")]
    told = [*thoughts, *(each for each in beside if isinstance(each, str))]
    return make_answer(text, calls, reasoning="\n".join(filter(None, told)))


def _read_call(call: Mapping[str, Any], spare_id: str) -> Plain:
    inner = call.get("function") or call.get("custom")
    whole = {**call, **inner} if isinstance(inner, dict) else call
    name = whole.get("name") or (inner if isinstance(inner, str) else None)
    return make_call(call.get("id") or spare_id, name, whole.get("arguments", whole.get("input")))


def _kind(part: object) -> object:
    return part.get("type") if isinstance(part, dict) else None


def _name(holder: Mapping[str, Any]) -> object:
    return holder.get("name") or holder.get("function")
