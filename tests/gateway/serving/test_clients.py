"""The real OpenAI client through the gateway."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import APIStatusError, AsyncOpenAI

from labrunner.gateway.metering.purse import Caps
from tests.kit.gateway.front import TOKEN, Front, run_gateway
from tests.kit.gateway.provider import Fail, Provider, run_provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def make_openai(front: Front) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{front.url}/openai", api_key=TOKEN, max_retries=0)


async def test_a_completion_with_parallel_tool_calls(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front, make_openai(front) as client:
        answer = await client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": "x"}]
        )
        calls = answer.choices[0].message.tool_calls or []
        assert [each.id for each in calls] == ["a", "b"]


async def test_a_stream_of_chunks_without_the_one_that_was_not_asked_for(
    tmp_path: Path, provider: Provider
) -> None:
    async with run_gateway(tmp_path, provider) as front, make_openai(front) as client:
        for options in (None, {"include_usage": True}):
            stream = await client.chat.completions.create(
                model="gpt-4o",
                messages=[{"role": "user", "content": "x"}],
                stream=True,
                **({"stream_options": options} if options else {}),  # type: ignore[call-overload]
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == "Hello, wörld"
            assert any(not chunk.choices for chunk in chunks) is (options is not None)
        assert [row.cost_usd for row in front.rows()] == [0.00042, 0.00042]


async def test_a_stream_of_a_response(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front, make_openai(front) as client:
        stream = await client.responses.create(model="gpt-5", input="x", stream=True)
        events = [event async for event in stream]
        assert events[-1].type == "response.completed"
        answer = await client.responses.create(model="gpt-5", input="x")
        assert answer.output_text == "Hello, wörld"


async def test_lists_and_embeddings(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front, make_openai(front) as client:
        assert [model.id async for model in client.models.list()] == ["m"]
        assert (await client.embeddings.create(model="m", input="x")).data[0].embedding == [0.5]


async def test_errors_have_the_form_that_the_client_knows(tmp_path: Path, provider: Provider) -> None:
    provider.plan.append(Fail(status=400))
    async with run_gateway(tmp_path, provider, caps=Caps(requests=1)) as front, make_openai(front) as client:
        messages = []
        for _ in range(2):
            with pytest.raises(APIStatusError) as caught:
                await client.chat.completions.create(
                    model="gpt-4o", messages=[{"role": "user", "content": "x"}]
                )
            messages.append((caught.value.status_code, caught.value.type))
        assert messages == [(400, "rate_limit_error"), (402, "cap_reached")]
