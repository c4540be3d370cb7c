"""Messages of a request to Gemini: contents, whose calls of tools may have no id.

Rule: a call without an id is named after its tool and its place among the calls of that tool in one message;
what the tool gave back is named the same way, so that both meet.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from labrunner.gateway.dialects.digging import dig_maps, dig_text
from labrunner.gateway.telling.pieces_of_speech import Plain, make_answer, make_call, make_result, to_text


def read_contents(contents: object) -> Iterator[Plain]:
    """The messages of `contents`."""
    for content in [contents] if isinstance(contents, dict) else dig_maps(contents):
        parts = dig_maps(content, "parts")
        if content.get("role") == "model":
            yield _read_answer(parts)
        else:
            yield from _read_asked(parts)


def name_calls(calls: list[Plain]) -> list[Plain]:
    """The same calls, each with an id."""
    seen: Counter[str] = Counter()
    return [call if call["id"] else call | {"id": _spare(call["function"], seen)} for call in calls]


def _spare(name: str, seen: Counter[str]) -> str:
    seen[name] += 1
    return f"{name}-{seen[name]}"


def _read_answer(parts: list[Mapping[str, Any]] | list[Plain]) -> Plain:
    calls = [
        make_call(call.get("id"), call.get("name"), call.get("args"))
        for part in parts
        if (call := _find(part, "functionCall", "function_call"))
    ]
    thoughts = [dig_text(part, "text") or "" for part in parts if part.get("thought") is True]
    said = [part for part in parts if part.get("thought") is not True and not _is_call(part)]
    return make_answer(to_text(said, between=""), name_calls(calls), reasoning="".join(thoughts))


def _read_asked(parts: list[Plain]) -> Iterator[Plain]:
    seen: Counter[str] = Counter()
    said = []
    for part in parts:
        result = _find(part, "functionResponse", "function_response")
        if not result:
            said.append(part)
            continue
        name = str(result.get("name") or "unknown")
        yield make_result(result.get("id") or _spare(name, seen), _unpack(result.get("response")), name=name)
    if said:
        yield {"role": "user", "content": to_text(said)}


def _unpack(response: object) -> object:
    """What a tool gave back is told under one of these names, as a rule."""
    match response:
        case {"output": str() as text} | {"result": str() as text} | {"content": str() as text}:
            return text if isinstance(response, dict) and len(response) == 1 else response
        case _:
            return response


def _is_call(part: Mapping[str, Any]) -> bool:
    return bool(_find(part, "functionCall", "function_call"))


def _find(part: Mapping[str, Any], *names: str) -> Plain:
    found = next((part[name] for name in names if isinstance(part.get(name), dict)), None)
    return found if isinstance(found, dict) else {}
