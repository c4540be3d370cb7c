"""A script's line as OpenAI would say it: chat completions and responses, whole and as streams."""

from collections.abc import Iterator
from typing import Any

import msgspec

from labrunner.gateway.dialects.speech import Tokens, WantedCall
from labrunner.gateway.scripting.performance import SpokenLine

Json = dict[str, Any]  # JSON of a provider's own


def write_event(value: object, name: str | None = None) -> bytes:
    """One event of a stream."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(value) + b"\n\n"


def make_completion(line: SpokenLine) -> Json:
    """A whole completion."""
    message: Json = {"role": "assistant", "content": line.text or None, "refusal": None}
    if line.calls:
        message["tool_calls"] = [_write_call(call) for call in line.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _stop(line)}
    return {
        "id": f"chatcmpl-{line.id}",
        "object": "chat.completion",
        "created": 0,
        "model": line.model,
        "choices": [choice],
        "usage": _chat_usage(line.tokens),
    }


def stream_completion(line: SpokenLine, *, with_usage: bool) -> Iterator[bytes]:
    """The same in chunks."""

    def chunk(delta: Json, stop: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        told = {
            "id": f"chatcmpl-{line.id}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": line.model,
            "choices": [choice],
        }
        return told | ({"usage": None} if with_usage else {})

    yield write_event(chunk({"role": "assistant", "content": ""}))
    for word in line.words:
        yield write_event(chunk({"content": word}))
    for number, call in enumerate(line.calls):
        yield write_event(chunk({"tool_calls": [{"index": number, **_write_call(call)}]}))
    yield write_event(chunk({}, _stop(line)))
    if with_usage:
        yield write_event(chunk({}) | {"choices": [], "usage": _chat_usage(line.tokens)})
    yield b"data: [DONE]\n\n"


def make_response(line: SpokenLine) -> Json:
    """A whole response."""
    items: list[Json] = []
    if line.text:
        content = [{"type": "output_text", "text": line.text, "annotations": [], "logprobs": []}]
        items.append(
            {
                "type": "message",
                "id": f"msg_{line.id}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    for number, call in enumerate(line.calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{line.id}_{number}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
        )
    tokens = line.tokens
    usage = {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.total,
    }
    return _begin_response(line) | {"status": "completed", "output": items, "usage": usage}


def stream_response(line: SpokenLine) -> Iterator[bytes]:
    """The same as events."""
    number = iter(range(1_000_000))

    def tell(kind: str, **fields: object) -> bytes:
        return write_event({"type": kind, "sequence_number": next(number), **fields}, kind)

    whole = make_response(line)
    yield tell("response.created", response=_begin_response(line))
    for index, item in enumerate(whole["output"]):
        place = {"item_id": item["id"], "output_index": index}
        is_text = item["type"] == "message"
        begun: Json = {**item, "status": "in_progress", **({"content": []} if is_text else {"arguments": ""})}
        yield tell("response.output_item.added", output_index=index, item=begun)
        if is_text:
            (part,) = item["content"]
            place |= {"content_index": 0}
            yield tell("response.content_part.added", part=part | {"text": ""}, **place)
            for word in line.words:
                yield tell("response.output_text.delta", delta=word, logprobs=[], **place)
            yield tell("response.output_text.done", text=line.text, logprobs=[], **place)
            yield tell("response.content_part.done", part=part, **place)
        else:
            arguments = item["arguments"]
            yield tell("response.function_call_arguments.delta", delta=arguments, **place)
            yield tell(
                "response.function_call_arguments.done", arguments=arguments, name=item["name"], **place
            )
        yield tell("response.output_item.done", output_index=index, item=item)
    yield tell("response.completed", response=whole)


def _begin_response(line: SpokenLine) -> Json:
    return {
        "id": f"resp_{line.id}",
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": line.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def _chat_usage(tokens: Tokens) -> Json:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.total,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _write_call(call: WantedCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _stop(line: SpokenLine) -> str:
    return "tool_calls" if line.calls else "stop"
