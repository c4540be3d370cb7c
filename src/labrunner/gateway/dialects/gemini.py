"""Gemini's generateContent and streamGenerateContent.

Rules: names stand in camelCase or in snake_case, as clients like it. Reasoning is not part of its
`candidatesTokenCount`; here `output` holds both. Caches kept at the provider are declined: nobody here
could say what they hold.
"""

from collections.abc import Collection
from typing import Final

from labrunner.gateway.dialects.anthropic import write_arguments
from labrunner.gateway.dialects.digging import (
    JsonMap,
    dig,
    dig_count,
    dig_list,
    dig_map,
    dig_maps,
    dig_text,
)
from labrunner.gateway.dialects.openai_chat import read_complaint
from labrunner.gateway.dialects.sifting import STAND_IN, Sieve
from labrunner.gateway.dialects.speech import Complaint, Heard, Tokens, WantedCall

_OWN_TOOLS: Final = frozenset(
    {"functionDeclarations", "function_declarations", "computerUse", "computer_use"}
)
_WORDS: Final = {
    "googlesearch": "web_search",
    "googlesearchretrieval": "web_search",
    "enterprisewebsearch": "web_search",
    "googlemaps": "web_search",
    "urlcontext": "web_fetch",
    "codeexecution": "code",
    "filesearch": "file_search",
    "mcpservers": "mcp",
}
_TEXT: Final = {"text": STAND_IN}


def sift(body: JsonMap, granted: Collection[str]) -> tuple[str, ...]:
    """Take out of a request what the provider would carry out; say what."""
    sieve = Sieve(granted)
    for tool in dig_maps(body, "tools"):
        for name in [name for name in tool if name not in _OWN_TOOLS]:
            if sieve.takes(_WORDS.get(name.replace("_", "").lower(), name)):
                del tool[name]
    if sieve.taken_out:
        body["tools"] = [tool for tool in dig_list(body, "tools") if tool]
    for content in (
        *_contents(body),
        dig_map(body, "systemInstruction"),
        dig_map(body, "system_instruction"),
    ):
        sieve.sift_blocks(content, "parts", _judge, _TEXT)
        for part in dig_maps(content, "parts"):
            answer = part.get("functionResponse") or part.get("function_response")
            sieve.sift_blocks(answer, "parts", _judge, _TEXT)
    return sieve.taken_out


def _contents(body: JsonMap) -> list[JsonMap]:
    contents = body.get("contents")
    return [contents] if isinstance(contents, dict) else dig_maps(body, "contents")


def _judge(part: JsonMap) -> str | None:
    return "url" if "fileData" in part or "file_data" in part else None


def find_kept_elsewhere(body: JsonMap) -> str | None:
    """The field that makes use of something kept at the provider, and can't be bounded."""
    return next((name for name in ("cachedContent", "cached_content") if body.get(name)), None)


def bound_output(body: JsonMap) -> int | None:
    """Tokens that all candidates together may have."""
    config = dig_map(body, "generationConfig") or dig_map(body, "generation_config")
    most = _count(config, "maxOutputTokens", "max_output_tokens")
    return None if most is None else most * max(1, _count(config, "candidateCount", "candidate_count") or 1)


def _count(value: JsonMap, *names: str) -> int | None:
    given = [count for name in names if (count := dig_count(value, name)) is not None]
    return max(given) if given else None


def read_tokens(usage: object) -> Tokens | None:
    """Usage as generateContent tells it; None where it tells none."""
    given = dig_count(usage, "promptTokenCount")
    if given is None:
        return None
    thoughts = dig_count(usage, "thoughtsTokenCount") or 0
    return Tokens(
        input=given + (dig_count(usage, "toolUsePromptTokenCount") or 0),
        output=(dig_count(usage, "candidatesTokenCount") or 0) + thoughts,
        cache_read=dig_count(usage, "cachedContentTokenCount") or 0,
        reasoning=thoughts,
    )


class GeminiListener:
    """Hears an answer, whole or in chunks that each have the form of a whole one."""

    def __init__(self) -> None:
        """Start before the first chunk."""
        self._facts: dict[str, str] = {}
        self._tokens: Tokens | None = None
        self._texts: dict[bool, list[str]] = {False: [], True: []}
        self._calls: list[WantedCall] = []
        self._blocked: str | None = None
        self._complaint: Complaint | None = None

    def ends(self, value: object) -> bool:
        """Whether a reason for the end is given."""
        return any(
            dig_text(chunk, "promptFeedback", "blockReason")
            or any(dig_text(candidate, "finishReason") for candidate in dig_maps(chunk, "candidates"))
            for chunk in dig_list(value) or [value]
        )

    def hear(self, value: object) -> None:
        """Take in an answer or a chunk of one."""
        for chunk in dig_list(value) or [value]:
            self._take(chunk)

    def _take(self, chunk: object) -> None:
        for name in ("responseId", "modelVersion"):
            if text := dig_text(chunk, name):
                self._facts[name] = text
        self._tokens = read_tokens(dig(chunk, "usageMetadata")) or self._tokens
        self._blocked = dig_text(chunk, "promptFeedback", "blockReason") or self._blocked
        self._complaint = _read_complaint(chunk) or self._complaint
        for candidate in dig_maps(chunk, "candidates"):
            if reason := dig_text(candidate, "finishReason"):
                self._facts["stop"] = reason
            for part in dig_maps(candidate, "content", "parts"):
                self._texts[part.get("thought") is True].append(dig_text(part, "text") or "")
                if call := dig_map(part, "functionCall"):
                    self._calls.append(_read_call(call))

    def tell(self) -> Heard:
        """What was said so far."""
        stop = self._facts.get("stop") or self._blocked
        generated = [*self._texts[False], *self._texts[True], *(each.arguments for each in self._calls)]
        return Heard(
            response_id=self._facts.get("responseId"),
            model=self._facts.get("modelVersion"),
            tokens=self._tokens,
            stop_reason=stop,
            text="".join(self._texts[False]),
            reasoning="".join(self._texts[True]),
            wanted=tuple(self._calls),
            refusal=self._blocked,
            complaint=self._complaint,
            is_over="stop" in self._facts or self._blocked is not None,
            size=sum(len(text.encode("utf-8", "replace")) for text in generated),
        )


def _read_call(call: JsonMap) -> WantedCall:
    return WantedCall(
        id=dig_text(call, "id") or "",
        name=dig_text(call, "name") or "",
        arguments=write_arguments(call.get("args")),
    )


def _read_complaint(value: object) -> Complaint | None:
    """Its errors have the status' name where others have a type."""
    told = read_complaint(value)
    return told and Complaint(kind=dig_text(value, "error", "status") or told.kind, message=told.message)
