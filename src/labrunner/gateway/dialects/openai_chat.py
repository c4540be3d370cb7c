"""OpenAI's chat completions, and what other providers make of them.

Rules: usage of a stream is asked for in every stream; a client that did not ask for it does not see its
chunk. Models that search by themselves count as the tool. Any field that is not known passes.
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
    is_true,
)
from labrunner.gateway.dialects.sifting import STAND_IN, Sieve, is_inline
from labrunner.gateway.dialects.speech import Complaint, Heard, Tokens, WantedCall

_OWN_TOOLS: Final = frozenset({None, "function", "custom", "allowed_tools"})
DONE: Final = "[DONE]"
"""What comes after the last chunk."""
_TEXT: Final = {"type": "text", "text": STAND_IN}


def sift(body: JsonMap, granted: Collection[str]) -> tuple[str, ...]:
    """Take out of a request what the provider would carry out; say what."""
    sieve = Sieve(granted)
    sieve.sift_key(body, "web_search_options", "web_search")
    sieve.sift_tools(body, lambda tool: None if tool.get("type") in _OWN_TOOLS else _name(tool))
    for message in dig_maps(body, "messages"):
        sieve.sift_blocks(message, "content", _judge, _TEXT)
    return sieve.taken_out


def _name(tool: JsonMap) -> str:
    word = str(tool.get("type"))
    return "web_search" if word.startswith("web_search") else word


def _judge(block: JsonMap) -> str | None:
    match block:
        case {"type": "file", "file": dict(file)} if "file_data" not in file or "file_id" in file:
            return "file"
        case {"type": str(kind)} if kind.endswith("_url"):
            given = block.get(kind)
            return None if is_inline(dig(given, "url") or given) else "url"
        case _:
            return None


def bound_output(body: JsonMap) -> int | None:
    """Tokens that all choices together may have."""
    given = [dig_count(body, name) for name in ("max_completion_tokens", "max_tokens")]
    most = [each for each in given if each is not None]
    return max(most) * max(1, dig_count(body, "n") or 1) if most else None


def ask_for_usage(body: JsonMap) -> bool:
    """Ask for the usage of a stream; True where the client did not do so itself."""
    if not is_true(body, "stream") or is_true(body, "stream_options", "include_usage"):
        return False
    body["stream_options"] = {**dig_map(body, "stream_options"), "include_usage": True}
    return True


def is_usage_chunk(value: object) -> bool:
    """Whether a chunk is the one that only tells the usage."""
    return dig(value, "choices") == [] and isinstance(dig(value, "usage"), dict)


def read_tokens(usage: object) -> Tokens | None:
    """Usage as chat completions and embeddings tell it."""
    given = dig_count(usage, "prompt_tokens")
    if given is None:
        return None
    return Tokens(
        input=given,
        output=dig_count(usage, "completion_tokens") or 0,
        cache_read=dig_count(usage, "prompt_tokens_details", "cached_tokens")
        or dig_count(usage, "prompt_cache_hit_tokens")
        or 0,
        cache_write=dig_count(usage, "prompt_tokens_details", "cache_write_tokens") or 0,
        reasoning=dig_count(usage, "completion_tokens_details", "reasoning_tokens") or 0,
    )


def read_complaint(value: object) -> Complaint | None:
    """An error as OpenAI and most others tell it."""
    match dig(value, "error"):
        case {"message": str(message)} as error:
            return Complaint(kind=dig_text(error, "type") or dig_text(error, "code"), message=message)
        case str(message):
            return Complaint(kind=None, message=message)
        case dict():
            return Complaint(kind=None, message="an error without a message")
        case _:
            return None


class ChatListener:
    """Hears a completion, whole or in chunks."""

    def __init__(self) -> None:
        """Start before the first chunk."""
        self._facts: dict[str, str] = {}
        self._tokens: Tokens | None = None
        self._complaint: Complaint | None = None
        self._texts: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning": []}
        self._calls: dict[tuple[int, int], list[str]] = {}
        self._is_over = False

    def ends(self, value: object) -> bool:
        """Whether it is the mark after the last chunk, or whole."""
        return value == DONE or any(
            dig_map(choice, "message") and dig_text(choice, "finish_reason")
            for choice in dig_maps(value, "choices")
        )

    def hear(self, value: object) -> None:
        """Take in a completion, or a chunk of one."""
        for name in ("id", "model", "service_tier"):
            if text := dig_text(value, name):
                self._facts[name] = text
        self._tokens = read_tokens(dig(value, "usage")) or self._tokens
        self._complaint = read_complaint(value) or self._complaint
        for choice in dig_maps(value, "choices"):
            whole = dig_map(choice, "message")
            self._take(dig_count(choice, "index") or 0, whole or dig_map(choice, "delta"))
            if reason := dig_text(choice, "finish_reason"):
                self._facts["stop"] = reason
        self._is_over = self._is_over or self.ends(value)

    def _take(self, choice: int, part: JsonMap) -> None:
        for name, texts in self._texts.items():
            texts.append(dig_text(part, name) or "")
        self._texts["reasoning"].append(dig_text(part, "reasoning_content") or "")
        for at, call in enumerate(dig_maps(part, "tool_calls")):
            place = dig_count(call, "index")
            held = self._calls.setdefault((choice, at if place is None else place), ["", "", ""])
            kind = "custom" if "custom" in call else "function"
            held[0] = dig_text(call, "id") or held[0]
            held[1] += dig_text(call, kind, "name") or ""
            held[2] += dig_text(call, kind, "arguments") or dig_text(call, kind, "input") or ""

    def tell(self) -> Heard:
        """What was said so far."""
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        wanted = tuple(
            WantedCall(id=call, name=name, arguments=arguments)
            for _, (call, name, arguments) in sorted(self._calls.items())
        )
        generated = [*texts.values(), *(each.name + each.arguments for each in wanted)]
        return Heard(
            response_id=self._facts.get("id"),
            model=self._facts.get("model"),
            tokens=self._tokens,
            stop_reason=self._facts.get("stop"),
            text=texts["content"],
            reasoning=texts["reasoning"],
            wanted=wanted,
            refusal=texts["refusal"] or None,
            complaint=self._complaint,
            tier=self._facts.get("service_tier"),
            is_over=self._is_over or "stop" in self._facts,
            size=sum(len(text.encode("utf-8", "replace")) for text in generated),
        )
