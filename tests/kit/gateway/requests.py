"""Requests of every protocol, whole and as streams."""

from typing import Any

from labrunner.gateway.dialects.speech import Dialect

USER = [{"role": "user", "content": "hello"}]
CASES: list[tuple[str, Dialect, str, dict[str, Any]]] = [
    ("openai_chat", "openai", "/chat/completions", {"model": "gpt-4o", "messages": USER, "max_tokens": 50}),
    ("openai_responses", "openai", "/responses", {"model": "gpt-5", "input": USER, "max_output_tokens": 50}),
    ("anthropic", "anthropic", "/v1/messages", {"model": "claude-x", "messages": USER, "max_tokens": 50}),
    (
        "gemini",
        "gemini",
        "/v1beta/models/gemini-x:generateContent",
        {"contents": [{"parts": [{"text": "hello"}]}], "generationConfig": {"maxOutputTokens": 50}},
    ),
]


def stream_of(path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if "generateContent" in path:
        return path.replace("generateContent", "streamGenerateContent") + "?alt=sse&key=x", body
    return path, {**body, "stream": True}
