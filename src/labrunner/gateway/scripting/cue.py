"""Where a request stands in its conversation, whatever protocol it came by. Pure.

Rule: a turn of the model is whatever it said between two things that were said to it.
"""

from dataclasses import dataclass
from typing import Final

from labrunner.experiment.model_script import Moment
from labrunner.gateway.dialects.digging import JsonMap, dig_list, dig_maps, dig_text
from labrunner.gateway.dialects.speech import Protocols

ID: Final = "script"
"""How ids of answers begin, after the letters that a protocol wants: `resp_script_0_2`."""
_MODELS_ITEMS: Final = frozenset({"function_call", "custom_tool_call", "reasoning"})
_TEXTS: Final = ("text", "content", "parts", "output", "functionResponse", "response", "result")
"""Where texts of messages, results of tools included, stand in any protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """What of a request decides its answer."""

    moment: Moment
    follows: tuple[int, int] | None = None
    """The answer that it names as the one before it: its number in the script, and its turn."""


def read_cue(protocol: Protocols, model: str, body: JsonMap) -> Cue:
    """Find out where a request stands."""
    field = {"openai_responses": "input", "gemini": "contents"}.get(protocol, "messages")
    given = body.get(field)
    items = [{"role": "user", "content": given}] if isinstance(given, str) else dig_maps(body, field)
    said = [_is_models(item) for item in items]
    moment = Moment(
        first=_find_opening(items, said),
        last=_find_latest(items, said),
        turn=_count_turns(said),
        model=model,
    )
    return Cue(moment=moment, follows=_read_id(dig_text(body, "previous_response_id") or ""))


def _find_opening(items: list[JsonMap], said: list[bool]) -> str:
    """What the user says before the model first speaks: agents put messages of their own beside the task."""
    opening = items[: said.index(True)] if True in said else items
    return "\n".join(_find_text(item) for item in opening if item.get("role", "user") == "user")


def _find_latest(items: list[JsonMap], said: list[bool]) -> str:
    """What was said to the model since it last spoke: results of tools, reminders after them."""
    ended = next((at for at in range(len(said), 0, -1) if said[at - 1]), 0)
    return "\n".join(_find_text(item) for item in items[ended:] or items[-1:])


def make_id(number: int, turn: int) -> str:
    """The id of an answer, from which the next request is understood."""
    return f"{ID}_{number}_{turn}"


def _read_id(text: str) -> tuple[int, int] | None:
    parts = text.rsplit("_", 3)[-3:]
    if len(parts) == 3 and parts[0] == ID and parts[1].isdecimal() and parts[2].isdecimal():
        return int(parts[1]), int(parts[2])
    return None


def _is_models(item: JsonMap) -> bool:
    return item.get("role") in ("assistant", "model") or item.get("type") in _MODELS_ITEMS


def _count_turns(said: list[bool]) -> int:
    return sum(is_models and not before for is_models, before in zip(said, [False, *said], strict=False))


def _find_text(value: object) -> str:
    """All text of a message, whatever its form."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(text for name in _TEXTS if (text := _find_text(value.get(name))))
    return "\n".join(text for each in dig_list(value) if (text := _find_text(each)))
