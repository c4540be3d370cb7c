"""What messages of every dialect are made of: texts, notes in place of media, calls of tools.

Rule: whatever has no text stays as a note in brackets: nothing that was said is dropped silently, and no
picture fills a screen.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from labrunner.gateway.dialects.digging import dig, dig_text

Plain = dict[str, Any]  # JSON, as transcripts have messages

_HOLDERS: Final = ("source", "inlineData", "inline_data", "fileData", "file_data", "file", "input_audio")
_MEDIA: Final = {"inlineData": "media", "inline_data": "media"}
_KINDS: Final = ("media_type", "mimeType", "mime_type", "format", "filename")
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})


def to_text(content: object, *, between: str = "\n") -> str:
    """Content as text, whatever shape it has."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return between.join(filter(None, map(_tell_part, content)))
        case _:
            return json.dumps(content, ensure_ascii=False)


def _tell_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return json.dumps(part, ensure_ascii=False)
    for name in ("text", "refusal"):
        if isinstance(text := part.get(name), str):
            return text
    if isinstance(kind := part.get("type"), str):
        return note(kind, part)
    media = next((name for name in _HOLDERS if name in part), None)
    return json.dumps(part, ensure_ascii=False) if media is None else note(_MEDIA.get(media, "file"), part)


def note(kind: str, part: Mapping[str, Any]) -> str:
    """A note in place of what has no text: its kind, and of what is held inline what it is."""
    told = [word for word in (_find_kind(part), _find_size(part)) if word]
    return f"[{kind}: {', '.join(told)}]" if told else f"[{kind}]"


def _find_kind(part: Mapping[str, Any]) -> str | None:
    address = find_address(part)
    if address is not None and address.startswith("data:"):
        return address[5:80].partition(";")[0].partition(",")[0] or None
    places = (part, *(each for name in _HOLDERS if isinstance(each := part.get(name), dict)))
    found = (dig_text(place, name) for place in places for name in _KINDS)
    return next((word for word in found if word), None)


def _find_size(part: Mapping[str, Any]) -> str | None:
    address = find_address(part) or ""
    inline = [address if address.startswith("data:") else ""]
    inline += [dig_text(part, name, "data") or "" for name in _HOLDERS]
    inline += [dig_text(part, "file", "file_data") or "", dig_text(part, "file_data") or ""]
    size = max(map(len, inline)) * 3 // 4
    return f"about {size:,} bytes" if size else None


def find_address(part: Mapping[str, Any]) -> str | None:
    """Where a part is to be found, or what it holds as an address."""
    return dig_text(part, "image_url", "url") or dig_text(part, "image_url") or dig_text(part, "file_url")


def is_thought(part: object) -> bool:
    """Whether a part is reasoning."""
    return dig(part, "type") in _THOUGHTS


def to_thought(part: object) -> str:
    """What a part of reasoning shows; providers may hide it."""
    for name in ("thinking", "text", "reasoning"):
        if text := dig_text(part, name):
            return text
    return "[hidden]" if dig(part, "data") or dig(part, "encrypted_content") else ""


def make_call(call_id: object, name: object, arguments: object) -> Plain:
    """A call of a tool, as transcripts have it."""
    given, problem = read_arguments(arguments)
    told = {"id": str(call_id or ""), "function": str(name or "unknown"), "arguments": given}
    return told | ({"parse_error": problem} if problem else {})


def read_arguments(given: object) -> tuple[Plain, str | None]:
    """What a tool was called with; text that is no JSON object is kept, and said to be none."""
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            return {"arguments": given}, f"no JSON: {error}"
    if given is None or isinstance(given, dict):
        return given or {}, None
    return {"arguments": given}, "no JSON object"


def make_result(call_id: object, content: object, *, name: object = None, is_error: bool = False) -> Plain:
    """What a tool gave back."""
    text = to_text(content)
    message: Plain = {"role": "tool", "content": text}
    if isinstance(call_id, str):
        message["tool_call_id"] = call_id
    if isinstance(name, str):
        message["function"] = name
    return message | ({"error": {"type": "tool", "message": text}, "content": ""} if is_error else {})


def make_answer(
    text: str, calls: Iterable[Plain] = (), *, reasoning: str = "", model: str | None = None
) -> Plain:
    """What a model said."""
    message: Plain = {"role": "assistant", "content": text}
    if model:
        message["model"] = model
    if reasoning:
        message["reasoning"] = reasoning
    listed = list(calls)
    return message | ({"tool_calls": listed} if listed else {})
