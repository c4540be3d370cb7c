"""Scripts behind a real gateway: every protocol, whole and as a stream, as clients and the meter see them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from labrunner.experiment.model_script import Script
from labrunner.gateway.dialects.speech import Dialect, Heard
from labrunner.gateway.metering.purse import Caps, Purse
from labrunner.gateway.process.control import ToldModel
from labrunner.gateway.process.daemon import make_entry
from labrunner.gateway.recording.bodies import keep_bytes
from labrunner.gateway.recording.calljournal import open_journal, read_calls
from labrunner.gateway.scripting.scripted_transport import ScriptedTransport
from labrunner.gateway.serving.caller import Caller
from labrunner.gateway.serving.listening import Callers, Service, listen_on_loopback, serve
from labrunner.gateway.serving.providerlink import open_link
from labrunner.gateway.telling.answering import hear_answer
from labrunner.records.facts.model_call import CallRow
from tests.kit.gateway.callrows import IDS
from tests.kit.gateway.front import TOKEN

DIALECTS: dict[str, Dialect] = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
SCRIPT = msgspec.convert(
    {
        "answers": [
            {
                "sample": "list the files",
                "turn": 0,
                "text": "Let me see.",
                "tool_calls": [
                    {"function": "run", "arguments": {"command": "ls"}},
                    {"function": "run", "arguments": {"command": "pwd"}},
                ],
                "input_tokens": 40,
                "output_tokens": 12,
            },
            {"sample": "list the files", "text": "There is nothing.", "input_tokens": 60, "output_tokens": 5},
            {"model": "sour", "fail": {"status": 403, "message": "not you"}},
            {"when": "wait", "text": "now", "fail": {"status": 529, "times": 1, "retry_after_s": 0.01}},
            {"when": "again", "model": "m", "turn": 0, "text": "and again"},
        ]
    },
    Script,
)


@dataclass(frozen=True, kw_only=True)
class Theatre:
    client: httpx.AsyncClient
    folder: Path

    def rows(self) -> list[CallRow]:
        return list(read_calls(self.folder))


@asynccontextmanager
async def play(folder: Path, dialect: Dialect, script: Script = SCRIPT) -> AsyncIterator[Theatre]:
    told = ToldModel(name="mock", dialect=dialect, base_url=None, key=None, script="answers.json")
    purse = Purse(whose="attempt", setting="agent.limits", caps=Caps())
    journal = open_journal(folder)
    caller = Caller(
        ids=IDS, attempt=1, token=TOKEN, providers=frozenset({"mock"}), purses=(purse,), journal=journal
    )
    transport = ScriptedTransport(dialect, script)
    async with open_link(make_entry(told), transport) as link, asyncio.TaskGroup() as group:
        with listen_on_loopback() as listener:
            serving = group.create_task(serve(listener, Callers([caller]), Service(links={"mock": link})))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/mock"
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with httpx.AsyncClient(
                base_url=url, headers=headers, timeout=30.0, trust_env=False, verify=False
            ) as client:
                yield Theatre(client=client, folder=folder)
            serving.cancel()
    journal.close()


def hear(call: CallRow, content: bytes) -> Heard:
    return hear_answer(call, keep_bytes(content).rows[0])


def ask(protocol: str, said: list[str], *, model: str = "m", is_streaming: bool = False) -> tuple[str, Any]:
    """A request in which user and model have spoken in turn, the user first."""
    roles = ["user", "model" if protocol == "gemini" else "assistant"] * len(said)
    if protocol == "gemini":
        contents = [
            {"role": role, "parts": [{"text": text}]} for role, text in zip(roles, said, strict=False)
        ]
        verb = "streamGenerateContent?alt=sse" if is_streaming else "generateContent"
        return f"/v1beta/models/{model}:{verb}", {"contents": contents}
    messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
    field = "input" if protocol == "openai_responses" else "messages"
    path = {"openai_chat": "/chat/completions", "openai_responses": "/responses", "anthropic": "/v1/messages"}
    body = {"model": model, field: messages, "stream": is_streaming}
    return path[protocol], body | ({"max_tokens": 100} if protocol == "anthropic" else {})


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("protocol", DIALECTS)
async def test_a_turn_is_said_in_every_protocol_and_metered(
    tmp_path: Path, protocol: str, is_streaming: bool
) -> None:
    async with play(tmp_path, DIALECTS[protocol]) as theatre:
        path, body = ask(protocol, ["please list the files"], is_streaming=is_streaming)
        first = await theatre.client.post(path, json=body)
        path, body = ask(protocol, ["please list the files", "…", "go on"], is_streaming=is_streaming)
        second = await theatre.client.post(path, json=body)
    one, two = theatre.rows()
    assert (first.status_code, second.status_code) == (200, 200)
    heard = hear(one, first.content)
    assert heard.text == "Let me see."
    assert [(call.name, json.loads(call.arguments)) for call in heard.wanted] == [
        ("run", {"command": "ls"}),
        ("run", {"command": "pwd"}),
    ]
    assert len({call.id for call in heard.wanted}) == 2
    assert hear(two, second.content).text == "There is nothing."
    assert one.tokens is not None
    assert (one.end, one.tokens.input, one.tokens.output) == ("answered", 40, 12)
    assert one.tokens.basis == "reported"
    assert (one.model, one.answered_by, one.cost_usd) == ("m", "m", None)
    assert one.stop_reason != two.stop_reason or protocol in ("gemini", "openai_responses")


async def test_a_response_that_names_the_one_before_it_goes_on(tmp_path: Path) -> None:
    async with play(tmp_path, "openai") as theatre:
        first = await theatre.client.post("/responses", json={"model": "m", "input": "list the files"})
        outputs = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": ""}
            for item in first.json()["output"]
            if item["type"] == "function_call"
        ]
        body = {"model": "m", "input": outputs, "previous_response_id": first.json()["id"]}
        second = await theatre.client.post("/responses", json=body)
    assert second.json()["output"][0]["content"][0]["text"] == "There is nothing."


async def test_items_of_one_response_are_one_turn(tmp_path: Path) -> None:
    async with play(tmp_path, "openai") as theatre:
        given: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "list the files"}]}]
        first = await theatre.client.post("/responses", json={"model": "m", "input": given})
        given += first.json()["output"]
        for item in first.json()["output"][1:]:
            given.append({"type": "function_call_output", "call_id": item["call_id"], "output": "x"})
        second = await theatre.client.post("/responses", json={"model": "m", "input": given})
    assert second.json()["output"][0]["content"][0]["text"] == "There is nothing."


@pytest.mark.parametrize("protocol", DIALECTS)
async def test_an_error_of_the_script_is_the_providers(tmp_path: Path, protocol: str) -> None:
    async with play(tmp_path, DIALECTS[protocol]) as theatre:
        path, body = ask(protocol, ["hello"], model="sour")
        answer = await theatre.client.post(path, json=body)
    (row,) = theatre.rows()
    assert (answer.status_code, row.end, row.status) == (403, "error", 403)


async def test_a_failure_that_passes_is_tried_again_by_the_gateway(tmp_path: Path) -> None:
    async with play(tmp_path, "openai") as theatre:
        path, body = ask("openai_chat", ["please wait"])
        answer = await theatre.client.post(path, json=body)
    (row,) = theatre.rows()
    assert answer.json()["choices"][0]["message"]["content"] == "now"
    assert [(tried.status, tried.retry_after_s) for tried in row.tries] == [(529, 0.01)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["who are you?"], "the script has no answer for turn 0 after 'who are you?'"),
        (["once again", "a", "and again"], "the script has no answer for turn 1 after 'and again'"),
    ],
)
async def test_what_the_script_does_not_know_is_told(tmp_path: Path, said: list[str], told: str) -> None:
    async with play(tmp_path, "openai") as theatre:
        path, body = ask("openai_chat", said)
        answer = await theatre.client.post(path, json=body)
    assert answer.status_code == 404
    assert told in answer.json()["error"]["message"]


async def test_results_of_tools_are_what_was_said_last(tmp_path: Path) -> None:
    script = msgspec.convert({"answers": [{"when": "42", "text": "seen"}]}, Script)
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "it is 42"}]}
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": [result]}]
    async with play(tmp_path, "anthropic", script) as theatre:
        body = {"model": "m", "max_tokens": 9, "messages": messages}
        answer = await theatre.client.post("/v1/messages", json=body)
    assert answer.json()["content"] == [{"type": "text", "text": "seen"}]


async def test_tokens_that_nobody_wrote_are_about_one_for_four_characters(tmp_path: Path) -> None:
    async with play(tmp_path, "openai") as theatre:
        path, body = ask("openai_chat", ["once again"])
        await theatre.client.post(path, json=body)
    (row,) = theatre.rows()
    assert row.tokens is not None
    assert row.tokens.output == 3
    assert 10 < row.tokens.input < 40


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
async def test_models_are_listed_and_tokens_counted(tmp_path: Path, dialect: Dialect) -> None:
    prefix = {"openai": "", "anthropic": "/v1", "gemini": "/v1beta"}[dialect]
    count = {
        "openai": "/responses/input_tokens",
        "anthropic": "/v1/messages/count_tokens",
        "gemini": "/v1beta/models/m:countTokens",
    }[dialect]
    async with play(tmp_path, dialect) as theatre:
        listed = await theatre.client.get(f"{prefix}/models")
        counted = await theatre.client.post(count, json={"model": "m", "input": "x" * 400})
    rows = listed.json().get("data") or listed.json()["models"]
    assert [row.get("id") or row["name"] for row in rows] == (
        ["models/m", "models/sour"] if dialect == "gemini" else ["m", "sour"]
    )
    assert next(iter(counted.json().values())) > 100


async def test_an_answer_may_come_late(tmp_path: Path) -> None:
    script = msgspec.convert({"answers": [{"text": "late", "wait_s": 0.2}]}, Script)
    async with play(tmp_path, "openai", script) as theatre:
        path, body = ask("openai_chat", ["x"])
        started = asyncio.get_running_loop().time()
        await theatre.client.post(path, json=body)
        assert asyncio.get_running_loop().time() - started >= 0.2
