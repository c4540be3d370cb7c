"""OpenAI's responses.

Rules: conversations, prompts and answers in the background that are kept at the provider are declined:
nobody here could say what they cost. An earlier answer may be referred to: its tokens count as input
again.
"""

from collections.abc import Collection
from typing import Final

from labrunner.gateway.dialects.digging import (
    JsonMap,
    dig,
    dig_count,
    dig_map,
    dig_maps,
    dig_text,
)
from labrunner.gateway.dialects.openai_chat import read_complaint
from labrunner.gateway.dialects.sifting import STAND_IN, Sieve, is_inline
from labrunner.gateway.dialects.speech import Complaint, Heard, Tokens, WantedCall

_OWN_TOOLS: Final = frozenset(
    {"function", "custom", "local_shell", "apply_patch", "computer_use_preview", "computer", "tool_search"}
    | {"allowed_tools"}
)
_WORDS: Final = {"code_interpreter": "code", "shell": "code"}
_TEXT: Final = {"type": "input_text", "text": STAND_IN}
_KEPT_ELSEWHERE: Final = ("conversation", "prompt", "background")
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


def sift(body: JsonMap, granted: Collection[str]) -> tuple[str, ...]:
    """Take out of a request what the provider would carry out; say what."""
    sieve = Sieve(granted)
    for group in dig_maps(body, "tools"):
        if group.get("type") == "namespace":
            sieve.sift_tools(group, _judge_tool)
    sieve.sift_tools(body, _judge_tool)
    for item in dig_maps(body, "input"):
        sieve.sift_blocks(item, "content", _judge, _TEXT)
        sieve.sift_blocks(item, "output", _judge, _TEXT)
        if isinstance(shown := item.get("output"), dict) and sieve.takes(_judge(shown)):
            item["output"] = dict(_TEXT)
    return sieve.taken_out


def _judge_tool(tool: JsonMap) -> str | None:
    word = tool.get("type")
    if word in _OWN_TOOLS or word == "namespace":
        return None
    if word == "shell" and dig(tool, "environment", "type") == "local":
        return None
    return "web_search" if str(word).startswith("web_search") else _WORDS.get(str(word), str(word))


def _judge(block: JsonMap) -> str | None:
    if block.get("type") not in {"input_image", "input_file", "computer_screenshot"}:
        return None
    if block.get("file_id"):
        return "file"
    address = block.get("image_url") or block.get("file_url")
    return None if address is None or is_inline(address) else "url"


def find_kept_elsewhere(body: JsonMap) -> str | None:
    """The field that makes use of something kept at the provider, and can't be bounded."""
    return next((name for name in _KEPT_ELSEWHERE if body.get(name)), None)


def leans_on_past(body: JsonMap) -> bool:
    """Whether earlier answers are input again without standing in the request."""
    items = dig_maps(body, "input")
    return bool(body.get("previous_response_id")) or any(
        item.get("type") == "item_reference" or ("type" not in item and "role" not in item and "id" in item)
        for item in items
    )


def read_tokens(usage: object) -> Tokens | None:
    """Usage as responses tell it."""
    given = dig_count(usage, "input_tokens")
    if given is None:
        return None
    return Tokens(
        input=given,
        output=dig_count(usage, "output_tokens") or 0,
        cache_read=dig_count(usage, "input_tokens_details", "cached_tokens") or 0,
        cache_write=dig_count(usage, "input_tokens_details", "cache_write_tokens") or 0,
        reasoning=dig_count(usage, "output_tokens_details", "reasoning_tokens") or 0,
    )


class ResponsesListener:
    """Hears a response: the whole object, or events that lead to it, the last of which holds all of it."""

    def __init__(self) -> None:
        """Start before the first event."""
        self._response: JsonMap = {}
        self._items: list[JsonMap] = []
        self._size = 0
        self._texts: list[str] = []
        self._complaint: Complaint | None = None
        self._is_over = False

    def ends(self, value: object) -> bool:
        """Whether it is one of the last events, or the whole response."""
        if dig(value, "object") == "response":
            return True
        return dig_text(value, "type") in _LAST and bool(dig_map(value, "response"))

    def hear(self, value: object) -> None:
        """Take in a response or an event."""
        kind = dig_text(value, "type") or ""
        if dig(value, "object") == "response":
            self._response = dig_map(value)
        elif response := dig_map(value, "response"):
            self._response = response
        elif kind == "response.output_item.done":
            self._items.append(dig_map(value, "item"))
        elif kind == "error":
            self._complaint = Complaint(
                kind=dig_text(value, "code"), message=dig_text(value, "message") or ""
            )
        elif kind.endswith(".delta"):
            written = dig_text(value, "delta") or ""
            self._size += len(written.encode("utf-8", "replace"))
            self._texts.append(written if kind == "response.output_text.delta" else "")
        self._is_over = self._is_over or self.ends(value)
        said = read_complaint(self._response) or read_complaint(value)
        self._complaint = said or self._complaint

    def _find_stop(self) -> str | None:
        if not self._is_over:
            return None
        return dig_text(self._response, "incomplete_details", "reason") or dig_text(self._response, "status")

    def tell(self) -> Heard:
        """What was said so far."""
        items = dig_maps(self._response, "output") or self._items
        parts = [
            part for item in items if item.get("type") == "message" for part in dig_maps(item, "content")
        ]
        refusals = [dig_text(part, "refusal") or "" for part in parts]
        thoughts = [
            dig_text(part, "text") or ""
            for item in items
            if item.get("type") == "reasoning"
            for part in (*dig_maps(item, "summary"), *dig_maps(item, "content"))
        ]
        return Heard(
            response_id=dig_text(self._response, "id"),
            model=dig_text(self._response, "model"),
            tokens=read_tokens(dig(self._response, "usage")),
            stop_reason=self._find_stop(),
            text="".join(dig_text(part, "text") or "" for part in parts) or "".join(self._texts),
            reasoning="\n".join(thoughts),
            wanted=tuple(_read_call(item) for item in items if item.get("type") in _CALLS),
            refusal="".join(refusals) or None,
            complaint=self._complaint,
            tier=dig_text(self._response, "service_tier"),
            is_over=self._is_over,
            size=self._size,
        )


def _read_call(item: JsonMap) -> WantedCall:
    return WantedCall(
        id=dig_text(item, "call_id") or dig_text(item, "id") or "",
        name=dig_text(item, "name") or "",
        arguments=dig_text(item, _CALLS[item["type"]]) or "",
    )
