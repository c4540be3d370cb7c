"""Where a request stands in its conversation, whatever protocol it came by. Pure.

Rule: a turn of the model is whatever it said between two things that were said to it.
"""

from dataclasses import dataclass
from typing import Final

from labrunner.gateway.dialects.digging import JsonMap, dig_map, dig_maps, dig_text
from labrunner.gateway.dialects.speech import Protocols

ID: Final = "script"
"""How ids of answers begin, after the letters that a protocol wants: `resp_script_0_2`."""
_MODELS_ITEMS: Final = frozenset({"function_call", "custom_tool_call", "reasoning"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCue:
    """What of a request decides its answer."""

    model: str
    opening: str
    """The first message of the user."""
    turn: int
    """How often the model has spoken already."""
    goes_on: tuple[int, int] | None = None
    """Conversation and turn of the answer that it names as the one before it."""


def read_cue(protocol: Protocols, model: str, body: JsonMap) -> StageCue:
    """Find out where a request stands."""
    match protocol:
        case "openai_responses":
            items = dig_maps(body, "input")
            text = body.get("input")
            opening = text if isinstance(text, str) else _find_opening(items, "content")
            before = _read_id(dig_text(body, "previous_response_id") or "")
            said = [_is_models(item) for item in items]
            return StageCue(model=model, opening=opening, turn=_count_turns(said), goes_on=before)
        case "gemini":
            contents = dig_maps(body, "contents")
            said = [content.get("role") == "model" for content in contents]
            return StageCue(model=model, opening=_find_opening(contents, "parts"), turn=_count_turns(said))
        case _:
            messages = dig_maps(body, "messages")
            said = [message.get("role") == "assistant" for message in messages]
            return StageCue(model=model, opening=_find_opening(messages, "content"), turn=_count_turns(said))


def make_id(conversation: int, turn: int) -> str:
    """The id of an answer, from which the next request is understood."""
    return f"{ID}_{conversation}_{turn}"


def _read_id(text: str) -> tuple[int, int] | None:
    parts = text.rsplit("_", 3)[-3:]
    if len(parts) == 3 and parts[0] == ID and parts[1].isdecimal() and parts[2].isdecimal():
        return int(parts[1]), int(parts[2])
    return None


def _is_models(item: JsonMap) -> bool:
    return item.get("role") == "assistant" or item.get("type") in _MODELS_ITEMS


def _count_turns(said: list[bool]) -> int:
    return sum(is_models and not before for is_models, before in zip(said, [False, *said], strict=False))


def _find_opening(messages: list[JsonMap], field: str) -> str:
    first = next((each for each in messages if each.get("role") in ("user", None)), {})
    content = first.get(field)
    if isinstance(content, str):
        return content
    texts = [dig_text(part, "text") or "" for part in dig_maps(dig_map(first), field)]
    return "\n".join(texts)
