"""A script's line as Anthropic's messages and Gemini's contents say it, whole and as streams."""

from collections.abc import Iterator

import msgspec

from labrunner.gateway.scripting.openai_costume import Json, write_event
from labrunner.gateway.scripting.performance import SpokenLine


def make_message(line: SpokenLine) -> Json:
    """A whole message of Anthropic's."""
    blocks: list[Json] = [{"type": "text", "text": line.text}] if line.text else []
    for call in line.calls:
        given = msgspec.json.decode(call.arguments)
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    return {
        "id": f"msg_{line.id}",
        "type": "message",
        "role": "assistant",
        "model": line.model,
        "content": blocks,
        "stop_reason": "tool_use" if line.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": line.tokens.input - line.tokens.cache_read,
            "cache_read_input_tokens": line.tokens.cache_read,
            "cache_creation_input_tokens": 0,
            "output_tokens": line.tokens.output,
        },
    }


def stream_message(line: SpokenLine) -> Iterator[bytes]:
    """The same as events."""
    whole = make_message(line)

    def tell(kind: str, **fields: object) -> bytes:
        return write_event({"type": kind, **fields}, kind)

    usage = whole["usage"] | {"output_tokens": 1}
    yield tell("message_start", message=whole | {"content": [], "stop_reason": None, "usage": usage})
    yield tell("ping")
    for index, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        begun = {**block, **({"text": ""} if is_text else {"input": {}})}
        yield tell("content_block_start", index=index, content_block=begun)
        pieces = line.words if is_text else [msgspec.json.encode(block["input"]).decode()]
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            if not is_text:
                delta = {"type": "input_json_delta", "partial_json": piece}
            yield tell("content_block_delta", index=index, delta=delta)
        yield tell("content_block_stop", index=index)
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield tell("message_delta", delta=ending, usage={"output_tokens": line.tokens.output})
    yield tell("message_stop")


def make_contents(line: SpokenLine) -> Json:
    """A whole answer of Gemini's."""
    parts: list[Json] = [{"text": line.text}] if line.text else []
    return _candidate(line, [*parts, *_function_calls(line)], stop="STOP") | _ending(line)


def stream_contents(line: SpokenLine, *, is_sse: bool) -> Iterator[bytes]:
    """The same in chunks: events, or a list that grows."""
    chunks = [_candidate(line, [{"text": word}]) for word in line.words]
    chunks.append(_candidate(line, _function_calls(line), stop="STOP") | _ending(line))
    if is_sse:
        yield from map(write_event, chunks)
        return
    for number, chunk in enumerate(chunks):
        yield (b"," if number else b"[") + msgspec.json.encode(chunk)
    yield b"]"


def _function_calls(line: SpokenLine) -> list[Json]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": msgspec.json.decode(call.arguments)}}
        for call in line.calls
    ]


def _candidate(line: SpokenLine, parts: list[Json], stop: str | None = None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    candidate |= {"finishReason": stop} if stop else {}
    return {"responseId": line.id, "modelVersion": line.model, "candidates": [candidate]}


def _ending(line: SpokenLine) -> Json:
    tokens = line.tokens
    usage = {
        "promptTokenCount": tokens.input,
        "cachedContentTokenCount": tokens.cache_read,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "totalTokenCount": tokens.total,
    }
    return {"usageMetadata": usage}
