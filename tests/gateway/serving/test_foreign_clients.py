"""Clients of other makers through the door to models: curl, Node's fetch, and the newest of providers."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.gateway.front import TOKEN, Front, run_gateway
from tests.kit.gateway.provider import Fail, Provider, run_provider

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}], "max_tokens": 50}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def execute(command: list[str], **env: str) -> str:
    """What a program prints; it must end well."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1, env=kept | env)
    out, trouble = await process.communicate()
    assert process.returncode == 0, trouble.decode()[-2000:]
    return out.decode()


def curl(front: Front, *more: str, **fields: object) -> list[str]:
    headers = [f"authorization: Bearer {TOKEN}", "content-type: application/json"]
    given = [word for header in headers for word in ("-H", header)]
    url = f"{front.url}/openai/chat/completions"
    return ["curl", "-sS", "--max-time", "20", *given, *more, "-d", json.dumps({**BODY, **fields}), url]


async def test_curl_gets_answers_whole_streamed_and_compressed(tmp_path: Path, provider: Provider) -> None:
    provider.packs = True
    async with run_gateway(tmp_path, provider) as front:
        whole = json.loads(await execute(curl(front, "--compressed")))
        assert whole["choices"][0]["message"]["content"] == "Hello, wörld"
        stream = await execute(curl(front, "-N", stream=True))
        assert stream.rstrip().endswith("data: [DONE]")
        assert '"usage"' not in stream.replace('"usage": null', "")
        large = await execute(curl(front, "-H", "expect: 100-continue", user="x" * 2_000))
        assert json.loads(large)["id"] == "chatcmpl-1"
        assert [row.cost_usd for row in front.rows()] == [0.00042] * 3


FETCH = """
const [url, key] = process.argv.slice(1);
const ask = (fields) => fetch(url + "/openai/chat/completions", {
  method: "POST",
  headers: {authorization: "Bearer " + key, "content-type": "application/json"},
  body: JSON.stringify({model: "gpt-4o", messages: [], max_tokens: 5, ...fields}),
});
const whole = await (await ask({})).json();
let text = "";
const answer = await ask({stream: true});
for await (const piece of answer.body) text += Buffer.from(piece).toString();
const end = text.trim().split("\\n").at(-1);
console.log(JSON.stringify({content: whole.choices[0].message.content, end}));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_the_fetch_of_node_gets_answers_whole_and_streamed(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front:
        out = await execute(["node", "--input-type=module", "-e", FETCH, front.url, TOKEN])
        assert json.loads(out) == {"content": "Hello, wörld", "end": "data: [DONE]"}
        assert [row.cost_usd for row in front.rows()] == [0.00042] * 2


ANTHROPIC = """
import sys
from anthropic import Anthropic, APIStatusError

client = Anthropic(base_url=sys.argv[1] + "/anthropic", api_key=sys.argv[2], max_retries=0)
asked = {"model": "claude-x", "max_tokens": 50, "messages": [{"role": "user", "content": "x"}]}
answer = client.messages.create(**asked)
print([block.type for block in answer.content], answer.usage.output_tokens)
with client.messages.stream(**asked) as stream:
    print("".join(stream.text_stream), stream.get_final_message().stop_reason)
print(client.messages.count_tokens(model="claude-x", messages=asked["messages"]).input_tokens)
try:
    client.messages.create(**asked)
except APIStatusError as error:
    print(error.status_code, error.body["error"]["type"])
"""
OPENAI = """
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/openai", api_key=sys.argv[2], max_retries=0)
asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]}
print(client.chat.completions.create(**asked).choices[0].message.content)
chunks = client.chat.completions.create(**asked, stream=True)
print("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
print(client.responses.create(model="gpt-5", input="x").output_text)
"""
GENAI = """
import sys
from google import genai

client = genai.Client(api_key=sys.argv[2], http_options={"base_url": sys.argv[1] + "/gemini"})
answer = client.models.generate_content(model="gemini-x", contents="x")
print(answer.text, answer.usage_metadata.total_token_count)
parts = client.models.generate_content_stream(model="gemini-x", contents="x")
print("".join(part.text or "" for part in parts))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A python with the newest clients, in a folder of its own."""
    folder = tmp_path_factory.mktemp("clients")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    packages = ["anthropic", "openai", "google-genai"]
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, timeout=600)
    return python


@pytest.mark.torture
@pytest.mark.timeout(900)
async def test_the_newest_clients_of_providers_work(
    tmp_path: Path, provider: Provider, installed: str
) -> None:
    async with run_gateway(tmp_path, provider) as front:
        provider.plan.extend(["answer"] * 3)
        provider.plan.extend([Fail(status=429)] * 3)
        told = await execute([installed, "-c", ANTHROPIC, front.url, TOKEN])
        assert told.splitlines() == [
            "['thinking', 'text', 'tool_use', 'tool_use'] 30",
            "Hello, wörld tool_use",
            "9",
            "429 rate_limit_error",
        ]
        assert (await execute([installed, "-c", OPENAI, front.url, TOKEN])).splitlines() == [
            "Hello, wörld"
        ] * 3
        told = await execute([installed, "-c", GENAI, front.url, TOKEN])
        assert told.splitlines() == ["Hello, wörld 150", "Hello, wörld"]
        assert {row.trouble for row in front.rows()} == {None}
