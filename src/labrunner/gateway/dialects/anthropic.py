"""Anthropic's messages.

Rules: its `input_tokens` leave out what was read from or written to the cache; here they hold it. Tools
without a type, and those whose type says that the client carries them out, stay.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from labrunner.gateway.dialects.digging import (
    JsonMap,
    dig,
    dig_count,
    dig_map,
    dig_maps,
    dig_text,
)
from labrunner.gateway.dialects.openai_chat import read_complaint
from labrunner.gateway.dialects.sifting import STAND_IN, Sieve
from labrunner.gateway.dialects.speech import Complaint, Heard, Tokens, WantedCall

_OWN_TOOLS: Final = ("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
_WORDS: Final = {
    "web_search_": "web_search",
    "web_fetch_": "web_fetch",
    "code_execution_": "code",
    "mcp_toolset": "mcp",
}
_TEXT: Final = {"type": "text", "text": STAND_IN}
_CHOICES: Final = frozenset({"auto", "any", "tool", "none"})


def sift(body: JsonMap, granted: Collection[str]) -> tuple[str, ...]:
    """Take out of a request what the provider would carry out; say what."""
    sieve = Sieve(granted)
    sieve.sift_key(body, "mcp_servers", "mcp")
    sieve.sift_key(body, "container", "code")
    sieve.sift_tools(body, _judge_tool)
    sieve.sift_blocks(body, "system", _judge, _TEXT)
    for message in dig_maps(body, "messages"):
        sieve.sift_blocks(message, "content", _judge, _TEXT)
    return sieve.taken_out


def _judge_tool(tool: JsonMap) -> str | None:
    word = tool.get("type")
    if word is None or word in _CHOICES or str(word).startswith(_OWN_TOOLS):
        return None
    return next((name for start, name in _WORDS.items() if str(word).startswith(start)), str(word))


def _judge(block: JsonMap) -> str | None:
    if block.get("type") == "container_upload":
        return "file"
    match dig(block, "source", "type"):
        case "url" | "file" as word:
            return word
        case _:
            return None


def read_tokens(usage: object) -> Tokens | None:
    """Usage as messages tell it."""
    given = dig_count(usage, "input_tokens")
    if given is None:
        return None
    read = dig_count(usage, "cache_read_input_tokens") or 0
    written = dig_count(usage, "cache_creation_input_tokens") or 0
    return Tokens(
        input=given + read + written,
        output=dig_count(usage, "output_tokens") or 0,
        cache_read=read,
        cache_write=written,
        cache_write_1h=min(dig_count(usage, "cache_creation", "ephemeral_1h_input_tokens") or 0, written),
        reasoning=dig_count(usage, "output_tokens_details", "thinking_tokens") or 0,
    )


class MessagesListener:
    """Hears a message, whole or as events."""

    def __init__(self) -> None:
        """Start before the first event."""
        self._message: JsonMap = {}
        self._usage: JsonMap = {}
        self._stop: str | None = None
        self._blocks: dict[int, JsonMap] = {}
        self._written: dict[int, list[str]] = {}
        self._complaint: Complaint | None = None
        self._is_over = False

    def ends(self, value: object) -> bool:
        """Whether it is the last event, or a whole message."""
        return dig(value, "type") in ("message_stop", "message")

    def hear(self, value: object) -> None:
        """Take in a message or an event."""
        match dig(value, "type"):
            case "message":
                self._take_message(dig_map(value))
            case "message_start":
                self._take_message(dig_map(value, "message"))
            case "content_block_start":
                self._blocks[dig_count(value, "index") or 0] = dig_map(value, "content_block")
            case "content_block_delta":
                self._take_delta(dig_count(value, "index") or 0, dig_map(value, "delta"))
            case "message_delta":
                self._stop = dig_text(value, "delta", "stop_reason") or self._stop
                self._take_usage(dig_map(value, "usage"))
            case _:
                pass
        self._is_over = self._is_over or self.ends(value)
        self._complaint = read_complaint(value) or self._complaint

    def _take_message(self, message: JsonMap) -> None:
        self._message = message
        self._stop = dig_text(message, "stop_reason")
        self._take_usage(dig_map(message, "usage"))
        self._blocks |= dict(enumerate(dig_maps(message, "content")))

    def _take_usage(self, usage: JsonMap) -> None:
        """Later events tell sums, and may leave out what has not changed."""
        self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _take_delta(self, index: int, delta: JsonMap) -> None:
        for name in ("text", "thinking", "partial_json"):
            if text := dig_text(delta, name):
                self._written.setdefault(index, []).append(text)

    def tell(self) -> Heard:
        """What was said so far."""
        by_kind: dict[str, list[str]] = {"text": [], "thinking": []}
        wanted: list[WantedCall] = []
        size = 0
        for index, block in sorted(self._blocks.items()):
            kind, tail = dig_text(block, "type") or "", "".join(self._written.get(index, ()))
            size += len(tail.encode("utf-8", "replace"))
            if kind in by_kind:
                by_kind[kind].append((dig_text(block, kind) or "") + tail)
            elif kind == "tool_use":
                wanted.append(_read_call(block, tail))
        text = "".join(by_kind["text"])
        return Heard(
            response_id=dig_text(self._message, "id"),
            model=dig_text(self._message, "model"),
            tokens=read_tokens(self._usage),
            stop_reason=self._stop,
            text=text,
            reasoning="\n".join(by_kind["thinking"]),
            wanted=tuple(wanted),
            refusal=text if self._stop == "refusal" else None,
            complaint=self._complaint,
            tier=dig_text(self._usage, "service_tier"),
            is_over=self._is_over,
            size=size,
        )


def _read_call(block: JsonMap, tail: str) -> WantedCall:
    return WantedCall(
        id=dig_text(block, "id") or "",
        name=dig_text(block, "name") or "",
        arguments=tail or write_arguments(block.get("input")),
    )


def write_arguments(value: object) -> str:
    """Arguments that came as values, as JSON."""
    return msgspec.json.encode({} if value is None else value).decode()
