"""Scripts behind a real gateway: every protocol, whole and as a stream, as clients and the meter see them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from labrunner.experiment.model_script import ModelScript
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
SCRIPT = ModelScript.model_validate(
    {
        "conversations": [
            {
                "match": "list the files",
                "answers": [
                    {
                        "text": "Let me see.",
                        "tool_calls": [
                            {"name": "run", "arguments": {"command": "ls"}},
                            {"name": "run", "arguments": {"command": "pwd"}},
                        ],
                        "usage": {"input": 40, "output": 12, "cache_read": 10},
                    },
                    {"text": "There is nothing.", "usage": {"input": 60, "output": 5}},
                ],
            },
            {"model": "sour", "answers": [{"error": {"status": 403, "kind": "permission_error"}}]},
            {"match": "again", "model": "m", "answers": [{"text": "and again"}]},
        ]
    }
)


@dataclass(frozen=True, kw_only=True)
class Theatre:
    client: httpx.AsyncClient
    folder: Path

    def rows(self) -> list[CallRow]:
        return list(read_calls(self.folder))


@asynccontextmanager
async def play(folder: Path, dialect: Dialect, script: ModelScript = SCRIPT) -> AsyncIterator[Theatre]:
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
    assert (one.end, one.tokens.input, one.tokens.output, one.tokens.cache_read) == ("answered", 40, 12, 10)
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


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            ["who are you?"],
            "the script has no conversation for the model 'm' and a first message 'who are you?'",
        ),
        (
            ["once again", "a", "b"],
            "the script's conversation 2 has 1 answers, and the model has spoken 1 times",
        ),
    ],
)
async def test_what_the_script_does_not_know_is_told(tmp_path: Path, said: list[str], told: str) -> None:
    async with play(tmp_path, "openai") as theatre:
        path, body = ask("openai_chat", said)
        answer = await theatre.client.post(path, json=body)
    assert answer.status_code == 404
    assert told in answer.json()["error"]["message"]


async def test_tokens_that_nobody_wrote_are_about_one_for_four_characters(tmp_path: Path) -> None:
    async with play(tmp_path, "openai") as theatre:
        path, body = ask("openai_chat", ["once again"])
        await theatre.client.post(path, json=body)
    (row,) = theatre.rows()
    assert row.tokens is not None
    assert row.tokens.output == 3
    assert 15 < row.tokens.input < 40


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


async def test_a_delay_is_waited_for(tmp_path: Path) -> None:
    script = ModelScript.model_validate({"conversations": [{"answers": [{"text": "late", "delay_s": 0.2}]}]})
    async with play(tmp_path, "openai", script) as theatre:
        path, body = ask("openai_chat", ["x"])
        started = asyncio.get_running_loop().time()
        await theatre.client.post(path, json=body)
        assert asyncio.get_running_loop().time() - started >= 0.2
