import json
from typing import Any

import pytest

from labrunner.gateway.dialects.bounds import HIDDEN_PROMPT, PICTURE
from labrunner.gateway.dialects.recognising import Inbound, recognise
from labrunner.gateway.dialects.speech import Ask, Declined, Dialect

PICTURE_URL = "data:image/png;base64," + "A" * 400_000
FUNCTION = {"type": "function", "name": "ls", "parameters": {"type": "object", "properties": {"url": {}}}}


def ask(dialect: Dialect, path: str, body: object, *granted: str, **more: Any) -> Ask:
    found = recognise(
        dialect, Inbound(method="POST", path=path, body=json.dumps(body).encode(), **more), granted
    )
    assert isinstance(found, Ask)
    return found


def decline(
    dialect: Dialect, path: str, body: bytes = b"{}", *, method: str = "POST", **more: Any
) -> Declined:
    found = recognise(dialect, Inbound(method=method, path=path, body=body, **more))
    assert isinstance(found, Declined)
    return found


def chat(**fields: Any) -> Ask:
    return ask("openai", "/chat/completions", {"model": "gpt-4o", "messages": [], **fields})


@pytest.mark.parametrize(
    ("dialect", "method", "path", "purpose", "sent"),
    [
        ("openai", "POST", "/chat/completions", "generate", "/chat/completions"),
        ("openai", "POST", "/v1/responses", "generate", "/responses"),
        ("openai", "POST", "/responses/input_tokens", "count_tokens", "/responses/input_tokens"),
        ("openai", "POST", "/embeddings", "embeddings", "/embeddings"),
        ("openai", "GET", "/v1/models", "models", "/models"),
        ("openai", "GET", "/models/org/name", "models", "/models/org/name"),
        ("anthropic", "POST", "/v1/messages", "generate", "/v1/messages"),
        ("anthropic", "POST", "/v1/messages/count_tokens", "count_tokens", "/v1/messages/count_tokens"),
        ("anthropic", "GET", "/v1/models/claude-x", "models", "/v1/models/claude-x"),
        (
            "gemini",
            "POST",
            "/v1beta/models/g-2:generateContent",
            "generate",
            "/v1beta/models/g-2:generateContent",
        ),
        ("gemini", "POST", "/v1beta/models/g:countTokens", "count_tokens", "/v1beta/models/g:countTokens"),
        ("gemini", "POST", "/v1/models/g:embedContent", "embeddings", "/v1/models/g:embedContent"),
        ("gemini", "GET", "/v1beta/models", "models", "/v1beta/models"),
    ],
)
def test_known_requests_are_recognised(
    dialect: Dialect, method: str, path: str, purpose: str, sent: str
) -> None:
    found = recognise(dialect, Inbound(method=method, path=path, body=b'{"model": "m"}'))
    assert isinstance(found, Ask)
    assert (found.purpose, found.path) == (purpose, sent)


@pytest.mark.parametrize(
    ("dialect", "method", "path"),
    [
        ("openai", "POST", "/files"),
        ("openai", "GET", "/chat/completions"),
        ("openai", "POST", "/chat/completions/../files"),
        ("openai", "GET", "/models/../files"),
        ("openai", "GET", "/models/a/../../files"),
        ("openai", "GET", "/models/%2e%2e/files"),
        ("openai", "GET", "/models//x"),
        ("openai", "GET", "/models/a\r\nHost: b"),
        ("anthropic", "POST", "/v1/messages/batches"),
        ("gemini", "POST", "/v1beta/files"),
        ("gemini", "POST", "/v1beta/models/g/../x:generateContent"),
    ],
)
def test_other_paths_are_declined_with_the_known_ones(dialect: Dialect, method: str, path: str) -> None:
    found = decline(dialect, path, method=method)
    assert found.status == 404
    assert "these are: " in found.message


def test_an_upgrade_is_refused_at_once() -> None:
    assert decline("openai", "/responses", method="GET", is_upgrade=True).status == 426


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"messages": []}', "names no model"),
        (b'{"model": {"a": 1}}', "names no model"),
        (b'{"model": "gpt-4o-search-preview"}', "searches the web by itself"),
        (b'{"model": "m", "x": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", "nested too deeply"),
    ],
)
def test_a_body_that_can_not_be_judged_is_declined(body: bytes, why: str) -> None:
    found = decline("openai", "/chat/completions", body)
    assert found.status == 400
    assert why in found.message


def test_a_second_field_of_the_same_name_does_not_get_through() -> None:
    body = b'{"model": "a", "tools": [{"type": "mcp"}], "messages": [], "tools": [], "model": "b"}'
    found = recognise("openai", Inbound(method="POST", path="/chat/completions", body=body))
    assert isinstance(found, Ask)
    assert (found.model, found.body) == ("b", b'{"model":"b","tools":[],"messages":[]}')


def test_only_known_parts_of_a_query_are_passed_on() -> None:
    path = "/v1beta/models/g:streamGenerateContent"
    found = ask("gemini", path, {}, query=(("alt", "sse"), ("key", "secret"), ("x", "y")))
    assert (found.query, found.is_streaming, found.model) == ((("alt", "sse"),), True, "g")


def test_usage_of_a_chat_stream_is_asked_for_and_hidden() -> None:
    found = chat(stream=True, stream_options={"include_obfuscation": False})
    options = {"include_obfuscation": False, "include_usage": True}
    assert json.loads(found.body)["stream_options"] == options
    assert found.hides_usage
    assert not chat(stream=True, stream_options={"include_usage": True}).hides_usage
    assert "stream_options" not in json.loads(chat().body)


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({}, None),
        ({"max_tokens": 10}, 10),
        ({"max_completion_tokens": 20, "max_tokens": 10}, 20),
        ({"max_completion_tokens": 20, "n": 3}, 60),
        ({"max_tokens": -5}, None),
        ({"max_tokens": 7.0}, 7),
        ({"max_tokens": True}, None),
    ],
)
def test_output_of_chat_is_bounded_over_all_choices(fields: dict[str, Any], most: int | None) -> None:
    assert chat(**fields).max_output == most


def test_output_of_the_others_is_bounded() -> None:
    assert ask("openai", "/responses", {"model": "m", "max_output_tokens": 9}).max_output == 9
    assert ask("anthropic", "/v1/messages", {"model": "m", "max_tokens": 8}).max_output == 8
    config = {"maxOutputTokens": 5, "candidateCount": 2}
    path = "/v1beta/models/g:generateContent"
    assert ask("gemini", path, {"generationConfig": config}).max_output == 10
    assert ask("openai", "/embeddings", {"model": "m", "input": "x"}).max_output == 0


def test_input_has_no_more_tokens_than_bytes_and_pictures_have_a_bound_of_their_own() -> None:
    text = "äöü" * 1000
    words = chat(messages=[{"role": "user", "content": text}])
    assert len(text.encode()) <= words.max_input <= len(text.encode()) + HIDDEN_PROMPT + 100
    block = {"type": "image_url", "image_url": {"url": PICTURE_URL}}
    picture = chat(messages=[{"role": "user", "content": [block, block]}])
    assert 2 * PICTURE <= picture.max_input <= 2 * PICTURE + HIDDEN_PROMPT + 500
    source = {"type": "base64", "media_type": "application/pdf", "data": "A" * 1000}
    paper = ask("anthropic", "/v1/messages", {"model": "m", "messages": [{"content": [{"source": source}]}]})
    assert paper.max_input >= 2000


def test_counting_is_free() -> None:
    found = ask("anthropic", "/v1/messages/count_tokens", {"model": "m", "messages": [{"content": "x"}]})
    assert (found.max_input, found.max_output) == (0, 0)


@pytest.mark.parametrize(
    ("dialect", "path", "body", "taken"),
    [
        ("openai", "/chat/completions", {"web_search_options": {}}, []),
        ("openai", "/chat/completions", {"web_search_options": {"a": 1}}, ["web_search"]),
        ("openai", "/chat/completions", {"tools": [{"type": "function"}, {"type": "mcp"}]}, ["mcp"]),
        (
            "openai",
            "/responses",
            {
                "tools": [
                    FUNCTION,
                    {"type": "web_search_preview_2025_03_11"},
                    {"type": "code_interpreter"},
                    {"type": "mcp", "server_url": "https://x"},
                    {"type": "shell"},
                    {"type": "shell", "environment": {"type": "local"}},
                    {"type": "namespace", "name": "n", "tools": [FUNCTION, {"type": "file_search"}]},
                    {"type": "telepathy"},
                ]
            },
            ["file_search", "web_search", "code", "mcp", "code", "telepathy"],
        ),
        (
            "anthropic",
            "/v1/messages",
            {
                "tools": [
                    {"name": "web_search", "input_schema": {}},
                    {"type": "bash_20250124", "name": "bash"},
                    {"type": "web_search_20250305", "name": "web_search"},
                    {"type": "web_fetch_20250910"},
                    {"type": "code_execution_20250825"},
                    {"type": "mcp_toolset"},
                ],
                "mcp_servers": [{"type": "url", "url": "https://x"}],
                "container": "c",
            },
            ["mcp", "code", "web_search", "web_fetch", "code", "mcp"],
        ),
        (
            "gemini",
            "/v1beta/models/g:generateContent",
            {
                "tools": [
                    {"functionDeclarations": [], "google_search": {}},
                    {"urlContext": {}},
                    {"codeExecution": {}},
                ]
            },
            ["web_search", "web_fetch", "code"],
        ),
    ],
)
def test_tools_of_the_provider_are_taken_out(
    dialect: Dialect, path: str, body: dict[str, Any], taken: list[str]
) -> None:
    found = ask(dialect, path, {"model": "m", **body})
    assert list(found.taken_out) == taken
    left = json.loads(found.body)
    assert not {"mcp_servers", "container"} & left.keys()
    granted = ask(dialect, path, {"model": "m", **body}, *taken)
    assert granted.taken_out == ()
    assert json.loads(granted.body) == {"model": "m", **body}


def test_with_the_last_tool_goes_what_may_only_stand_beside_tools() -> None:
    tools = [{"type": "web_search"}]
    fields = {"model": "m", "tools": tools, "tool_choice": "required", "parallel_tool_calls": True}
    assert json.loads(ask("openai", "/responses", fields).body) == {"model": "m"}
    fields = {"model": "m", "tools": [FUNCTION, *tools], "tool_choice": {"type": "web_search"}}
    assert json.loads(ask("openai", "/responses", fields).body) == {"model": "m", "tools": [FUNCTION]}


URL = "https://example.com/a.png"


@pytest.mark.parametrize(
    ("dialect", "path", "field", "message", "word"),
    [
        (
            "openai",
            "/chat/completions",
            "messages",
            {"content": [{"type": "image_url", "image_url": {"url": URL}}]},
            "url",
        ),
        (
            "openai",
            "/chat/completions",
            "messages",
            {"content": [{"type": "file", "file": {"file_id": "f"}}]},
            "file",
        ),
        ("openai", "/responses", "input", {"content": [{"type": "input_image", "image_url": URL}]}, "url"),
        ("openai", "/responses", "input", {"output": [{"type": "input_file", "file_id": "f"}]}, "file"),
        (
            "openai",
            "/responses",
            "input",
            {"output": {"type": "computer_screenshot", "image_url": URL}},
            "url",
        ),
        (
            "anthropic",
            "/v1/messages",
            "messages",
            {"content": [{"type": "image", "source": {"type": "url", "url": URL}}]},
            "url",
        ),
        (
            "anthropic",
            "/v1/messages",
            "messages",
            {"content": [{"type": "tool_result", "content": [{"type": "image", "source": {"type": "url"}}]}]},
            "url",
        ),
        (
            "gemini",
            "/v1beta/models/g:generateContent",
            "contents",
            {"parts": [{"fileData": {"fileUri": URL}}]},
            "url",
        ),
        (
            "gemini",
            "/v1beta/models/g:generateContent",
            "contents",
            {"parts": [{"functionResponse": {"parts": [{"file_data": {}}]}}]},
            "url",
        ),
    ],
)
def test_files_that_the_provider_would_fetch_give_way_to_a_text(
    dialect: Dialect, path: str, field: str, message: dict[str, Any], word: str
) -> None:
    found = ask(dialect, path, {"model": "m", field: [message]})
    assert found.taken_out == (word,)
    assert b"was taken out" in found.body
    assert URL.encode() not in found.body
    assert ask(dialect, path, {"model": "m", field: [message]}, word).taken_out == ()


def test_what_a_tool_of_the_agent_was_given_is_no_block() -> None:
    use = {"type": "tool_use", "id": "a", "name": "n", "input": {"source": {"type": "url"}}}
    found = ask(
        "anthropic", "/v1/messages", {"model": "m", "messages": [{"role": "assistant", "content": [use]}]}
    )
    assert found.taken_out == ()


@pytest.mark.parametrize("field", ["conversation", "prompt", "background"])
def test_what_is_kept_at_the_provider_is_declined(field: str) -> None:
    body = json.dumps({"model": "m", field: {"id": "x"}}).encode()
    assert f"`{field}`" in decline("openai", "/responses", body).message
    cached = b'{"cachedContent": "cachedContents/x"}'
    assert "`cachedContent`" in decline("gemini", "/v1beta/models/g:generateContent", cached).message


def test_an_earlier_answer_that_is_input_again_is_told() -> None:
    assert ask("openai", "/responses", {"model": "m", "previous_response_id": "r"}).leans_on_past
    items = [{"type": "item_reference", "id": "i"}]
    assert ask("openai", "/responses", {"model": "m", "input": items}).leans_on_past
    assert not ask("openai", "/responses", {"model": "m", "input": "hello"}).leans_on_past
