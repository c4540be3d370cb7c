"""What a recorded request asked: its messages, tools and settings, whatever its dialect."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from labrunner.gateway.dialects.digging import dig, dig_map, dig_maps, dig_text
from labrunner.gateway.telling.pieces_of_speech import Plain, to_text
from labrunner.gateway.telling.said_in_chats import ROLES, read_turn
from labrunner.gateway.telling.said_in_gemini import read_contents
from labrunner.gateway.telling.said_in_responses import read_items

_SETTINGS: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "topP": "top_p",
    "top_k": "top_k",
    "topK": "top_k",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "reasoning_effort": "reasoning_effort",
}
"""Names of settings in requests, and in transcripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidRequest:
    """A request, as people read it."""

    messages: tuple[Plain, ...] = ()
    tools: tuple[str, ...] = ()
    config: Mapping[str, Any]
    continues: str | None = None
    """The id of an earlier answer that the provider keeps, and that this goes on from."""


def read_request(protocol: str, body: object) -> SaidRequest:
    """Read a request's body, put together. Whatever stands there, nothing is raised."""
    if not isinstance(body, dict):
        return SaidRequest(config={})
    return SaidRequest(
        messages=tuple(_name_tools(_read_messages(protocol, body))),
        tools=tuple(_read_tools(protocol, body)),
        config=_read_config(body),
        continues=dig_text(body, "previous_response_id"),
    )


def _read_messages(protocol: str, body: Plain) -> Iterator[Plain]:
    match protocol:
        case "openai_responses":
            yield from _read_system(body.get("instructions"))
            yield from read_items(body.get("input"))
        case "gemini":
            system = body.get("systemInstruction") or body.get("system_instruction")
            yield from _read_system(dig(system, "parts") if isinstance(system, dict) else system)
            yield from read_contents(body.get("contents"))
        case _:
            yield from _read_system(body.get("system"))
            for turn in dig_maps(body, "messages"):
                yield from read_turn(ROLES.get(str(turn.get("role")), "user"), turn)


def _read_system(given: object) -> Iterator[Plain]:
    if text := to_text(given):
        yield {"role": "system", "content": text}


def _name_tools(messages: Iterator[Plain]) -> Iterator[Plain]:
    """Give results the name of the tool that was called, where they do not say it."""
    names: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]
        name = names.get(message.get("tool_call_id", ""))
        is_nameless = message["role"] == "tool" and name and "function" not in message
        yield message | {"function": name} if is_nameless else message


def _read_tools(protocol: str, body: Plain) -> Iterator[str]:
    for tool in dig_maps(body, "tools"):
        if protocol == "gemini":
            listed = dig_maps(tool, "functionDeclarations") or dig_maps(tool, "function_declarations")
            yield from (str(each.get("name")) for each in listed)
            continue
        inner = dig_map(tool, "function") or dig_map(tool, "custom") or tool
        yield str(inner.get("name") or tool.get("type"))


def _read_config(body: Plain) -> dict[str, Any]:
    inner = dig_map(body, "generationConfig") or dig_map(body, "generation_config")
    found = {
        told: place[name]
        for place in (body, inner)
        for name, told in _SETTINGS.items()
        if isinstance(place.get(name), int | float | str)
    }
    effort = dig_text(body, "reasoning", "effort")
    return found | ({"reasoning_effort": effort} if effort else {})
