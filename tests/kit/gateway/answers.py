"""Answers in the form in which providers give them: whole, and as streams."""

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

CHAT: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-2024-08-06",
    "service_tier": "default",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": "Hello, wörld",
                "refusal": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"p":"/"}'}},
                    {"id": "b", "type": "function", "function": {"name": "cat", "arguments": "{}"}},
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 120,
        "completion_tokens": 30,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 12},
    },
}
RESPONSE: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-5-2025-08-07",
    "service_tier": "default",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello, wörld", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "ls", "arguments": '{"p":"/"}'},
        {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "cat", "arguments": "{}"},
    ],
    "usage": {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 12},
        "total_tokens": 150,
    },
}
MESSAGE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-20250514",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Hello, wörld"},
        {"type": "tool_use", "id": "a", "name": "ls", "input": {"p": "/"}},
        {"type": "tool_use", "id": "b", "name": "cat", "input": {}},
    ],
    "usage": {
        "input_tokens": 20,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 40,
        "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 10},
        "output_tokens": 30,
        "service_tier": "standard",
    },
}
GEMINI: Json = {
    "responseId": "g1",
    "modelVersion": "gemini-2.5-flash",
    "candidates": [
        {
            "index": 0,
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "Hello, wörld"},
                    {"functionCall": {"id": "a", "name": "ls", "args": {"p": "/"}}},
                    {"functionCall": {"id": "b", "name": "cat", "args": {}}},
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 120,
        "cachedContentTokenCount": 100,
        "candidatesTokenCount": 18,
        "thoughtsTokenCount": 12,
        "totalTokenCount": 150,
    },
}
ERRORS: dict[str, Json] = {
    "openai_chat": {"error": {"message": "slow down", "type": "rate_limit_error", "code": None}},
    "openai_responses": {"error": {"message": "slow down", "type": "rate_limit_error", "code": None}},
    "anthropic": {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}},
    "gemini": {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}},
}
WHOLE: dict[str, Json] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSE,
    "anthropic": MESSAGE,
    "gemini": GEMINI,
}


def event(value: object, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{head}data: {text}\n\n".encode()


def stream_chat(*, with_usage: bool) -> Iterable[bytes]:
    """The completion above in chunks, its two tool calls interleaved."""
    base = {"id": CHAT["id"], "object": "chat.completion.chunk", "created": 1, "model": CHAT["model"]}

    def chunk(delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return event({**base, "choices": [choice], **({"usage": None} if with_usage else {})})

    def call(index: int, arguments: str, **head: str) -> Json:
        function = {"arguments": arguments} | ({"name": head["name"]} if head else {})
        known = {"id": head["id"], "type": "function"} if head else {}
        return {"tool_calls": [{"index": index, **known, "function": function}]}

    yield chunk({"role": "assistant", "content": ""})
    yield b": ping\n\n"
    for word in ("Hello", ", ", "wörld"):
        yield chunk({"content": word})
    yield chunk(call(0, "", id="a", name="ls"))
    yield chunk(call(1, "{", id="b", name="cat"))
    yield chunk(call(0, '{"p":'))
    yield chunk(call(1, "}"))
    yield chunk(call(0, '"/"}'))
    yield chunk({}, "tool_calls")
    if with_usage:
        yield event({**base, "choices": [], "usage": CHAT["usage"]})
    yield event("[DONE]")


def begun_item(item: Json) -> Json:
    return (
        {"content": [], "status": "in_progress"} if item["type"] == "message" else {"status": "in_progress"}
    )


def stream_responses() -> Iterable[bytes]:
    number = iter(range(1000))

    def tell(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, "sequence_number": next(number), **fields}, kind)

    begun = RESPONSE | {"status": "in_progress", "output": [], "usage": None}
    yield tell("response.created", response=begun)
    for index, item in enumerate(RESPONSE["output"]):
        yield tell("response.output_item.added", output_index=index, item=item | begun_item(item))
        if item["type"] == "message":
            for word in ("Hello", ", ", "wörld"):
                place = {"item_id": item["id"], "output_index": index, "content_index": 0, "logprobs": []}
                yield tell("response.output_text.delta", delta=word, **place)
        yield tell("response.output_item.done", output_index=index, item=item)
    yield tell("response.completed", response=RESPONSE)


def stream_messages() -> Iterable[bytes]:
    usage = MESSAGE["usage"] | {"output_tokens": 1}
    begun = MESSAGE | {"content": [], "stop_reason": None, "usage": usage}
    deltas: dict[str, list[Json]] = {
        "thinking": [{"type": "thinking_delta", "thinking": "hm"}],
        "text": [{"type": "text_delta", "text": word} for word in ("Hello", ", ", "wörld")],
    }
    empty: dict[str, Json] = {"thinking": {"thinking": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}
    yield event({"type": "message_start", "message": begun}, "message_start")
    yield event({"type": "ping"}, "ping")
    for index, block in enumerate(MESSAGE["content"]):
        start = {"type": "content_block_start", "index": index, "content_block": block | empty[block["type"]]}
        yield event(start, "content_block_start")
        arguments = json.dumps(block.get("input"), separators=(",", ":"))
        parts = [
            {"type": "input_json_delta", "partial_json": part} for part in (arguments[:2], arguments[2:])
        ]
        for delta in deltas.get(block["type"], parts):
            yield event(
                {"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta"
            )
        yield event({"type": "content_block_stop", "index": index}, "content_block_stop")
    ending = {"stop_reason": "tool_use", "stop_sequence": None}
    yield event({"type": "message_delta", "delta": ending, "usage": {"output_tokens": 30}}, "message_delta")
    yield event({"type": "message_stop"}, "message_stop")


def gemini_chunks() -> list[Json]:
    facts = {"responseId": GEMINI["responseId"], "modelVersion": GEMINI["modelVersion"]}
    (candidate,) = GEMINI["candidates"]
    thought, _, *calls = candidate["content"]["parts"]
    shares = [[thought], *([{"text": word}] for word in ("Hello", ", ", "wörld")), calls]
    chunks: list[Json] = [
        {**facts, "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]}
        for parts in shares
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = GEMINI["usageMetadata"]
    return chunks


def stream_gemini(*, is_sse: bool = True) -> Iterable[bytes]:
    if is_sse:
        yield from map(event, gemini_chunks())
        return
    for at, chunk in enumerate(gemini_chunks()):
        yield (b"[" if at == 0 else b",\r\n") + json.dumps(chunk, indent=2).encode()
    yield b"\n]"


STREAMS: dict[str, bytes] = {
    "openai_chat": b"".join(stream_chat(with_usage=True)),
    "openai_responses": b"".join(stream_responses()),
    "anthropic": b"".join(stream_messages()),
    "gemini": b"".join(stream_gemini()),
}
