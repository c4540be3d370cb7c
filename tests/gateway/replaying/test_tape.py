"""Recorded calls answer in a provider's place, through the real gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from labrunner.experiment.run_policy import ReplayMode
from labrunner.gateway.dialects.speech import Dialect
from labrunner.gateway.metering.purse import Caps
from labrunner.gateway.replaying.tape import Tape, open_tape
from tests.kit.gateway.front import Front, make_client, run_gateway
from tests.kit.gateway.provider import Behaviour, Fail, Provider, run_provider
from tests.kit.gateway.requests import CASES, USER, stream_of

CHAT = "/openai/chat/completions"
NOBODY = Provider(url="http://127.0.0.1:9")
"""Nothing listens there."""


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def ask(front: Front, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    """Status and bytes; of an answer that broke off what came."""
    seen = bytearray()
    async with make_client(front) as client, client.stream("POST", path, json=body) as answer:
        try:
            async for piece in answer.aiter_raw():
                seen += piece
        except httpx.RemoteProtocolError:
            return -answer.status_code, bytes(seen)
    return answer.status_code, bytes(seen)


def say(text: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "gpt-4o",
        "messages": [*USER, {"role": "user", "content": text}],
        "max_tokens": 5,
        **more,
    }


async def record(
    folder: Path,
    provider: Provider,
    asked: Iterable[tuple[str, dict[str, Any]]],
    plan: Iterable[Behaviour] = (),
    **entry: Any,
) -> list[tuple[int, bytes]]:
    provider.plan.extend(plan)
    async with run_gateway(folder, provider, **entry) as front:
        return [await ask(front, *each) for each in asked]


def rewind(tmp_path: Path, mode: ReplayMode = "strict") -> Tape:
    own = tmp_path / "now"
    own.mkdir(exist_ok=True)
    return open_tape(mode, [tmp_path / "then"], own)


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(("protocol", "dialect", "path", "body"), CASES)
async def test_every_dialect_hears_the_recorded_bytes_with_the_provider_off(
    tmp_path: Path,
    provider: Provider,
    protocol: str,
    dialect: Dialect,
    path: str,
    body: dict[str, Any],
    is_streaming: bool,
) -> None:
    del protocol
    at, sent = stream_of(path, body) if is_streaming else (path, body)
    asked = [(f"/{dialect}{at}", sent)]
    then = await record(tmp_path / "then", provider, asked)
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path)) as front:
        assert [await ask(front, *each) for each in asked] == then
        (row,) = front.rows()
    assert (row.end, row.streaming, row.cost_usd) == ("answered", is_streaming, 0.00042)
    assert row.replayed is not None
    assert front.run.spent.cost_usd == 0
    assert front.purse.spent.cost_usd == Decimal("0.00042")


async def test_failures_come_again_as_they_were(tmp_path: Path, provider: Provider) -> None:
    asked = [(CHAT, say(f"{n}", stream=n == 2)) for n in range(4)]
    plan: list[Behaviour] = [Fail(status=503), Fail(status=401), "cut", "drop"]
    then = await record(tmp_path / "then", provider, asked, plan, max_retries=0)
    assert [status for status, _ in then] == [503, 401, -200, 502]
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path), max_retries=0) as front:
        assert [await ask(front, *each) for each in asked] == then
        assert [row.end for row in front.rows()] == ["error", "error", "cut", "unreachable"]


async def test_a_recorded_call_answers_once_and_the_difference_of_a_miss_is_told(
    tmp_path: Path, provider: Provider
) -> None:
    await record(tmp_path / "then", provider, [(CHAT, say("one")), (CHAT, say("two"))])
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path)) as front:
        assert (await ask(front, CHAT, say("one")))[0] == 200
        status, told = await ask(front, CHAT, say("too"))
        assert (status, (await ask(front, CHAT, say("one")))[0]) == (404, 404)
        assert b"replay_miss" in told
        assert 'messages[1].content: recorded \\"two\\", now \\"too\\"' in told.decode()
        assert (await ask(front, CHAT, say("two")))[0] == 200
        _, told = await ask(front, CHAT, say("two"))
        assert b"all 2 recorded calls have been answered, and this is one more" in told
        assert [row.end for row in front.rows()] == ["answered", "missed", "missed", "answered", "missed"]


async def test_calls_that_arrive_in_another_order_find_their_own_answers(
    tmp_path: Path, provider: Provider
) -> None:
    asked = [(CHAT, say("one", stream=True)), ("/anthropic/v1/messages", CASES[2][3]), (CHAT, say("one"))]
    then = await record(tmp_path / "then", provider, asked)
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path)) as front:
        assert [await ask(front, *each) for each in reversed(asked)] == then[::-1]


async def test_numbers_for_the_providers_books_make_no_other_request(
    tmp_path: Path, provider: Provider
) -> None:
    await record(tmp_path / "then", provider, [(CHAT, say("one", user="a", metadata={"n": "1"}))])
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path)) as front:
        assert (await ask(front, CHAT, say("one", user="b", metadata={"n": "2"})))[0] == 200


async def test_where_answers_are_reused_the_provider_is_asked_for_the_rest(
    tmp_path: Path, provider: Provider
) -> None:
    asked = [(CHAT, say("one")), (CHAT, say("failed"))]
    await record(tmp_path / "then", provider, asked, ["answer", Fail(status=500)], max_retries=0)
    provider.got.clear()
    async with run_gateway(tmp_path / "now", provider, tape=rewind(tmp_path, "reuse")) as front:
        for each in [*asked, (CHAT, say("new"))]:
            assert (await ask(front, *each))[0] == 200
        assert [row.replayed is not None for row in front.rows()] == [True, False, False]
    assert len(provider.got) == 2
    assert front.run.spent.cost_usd == Decimal("0.00084")


async def test_a_gateway_that_starts_again_goes_on_behind_what_was_answered(
    tmp_path: Path, provider: Provider
) -> None:
    then = await record(tmp_path / "then", provider, [(CHAT, say("same")), (CHAT, say("same"))])
    for n in range(2):
        async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path)) as front:
            assert await ask(front, CHAT, say("same")) == then[n]
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path)) as front:
        assert (await ask(front, CHAT, say("same")))[0] == 404
        first, second, _ = front.rows()
    assert first.replayed != second.replayed


async def test_the_agents_own_limit_is_reached_where_it_was_then(tmp_path: Path, provider: Provider) -> None:
    asked = [(CHAT, say(f"{n}")) for n in range(3)]
    caps = Caps(requests=2)
    then = await record(tmp_path / "then", provider, asked, caps=caps)
    assert [status for status, _ in then] == [200, 200, 402]
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path), caps=caps) as front:
        assert [await ask(front, *each) for each in asked] == then
        assert [row.end for row in front.rows()] == ["answered", "answered", "capped"]


async def test_what_the_client_did_not_wait_for_is_not_over_this_time_either(
    tmp_path: Path, provider: Provider
) -> None:
    provider.gate = asyncio.Event()
    async with run_gateway(tmp_path / "then", provider) as front:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(front, CHAT, say("one", stream=True)), 0.5)
        await asyncio.wait_for(provider.left.wait(), 10)
    async with run_gateway(tmp_path / "now", NOBODY, tape=rewind(tmp_path)) as front:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(front, CHAT, say("one", stream=True)), 0.5)
        await asyncio.wait_for(_until_booked(front), 10)
    assert [row.end for row in front.rows()] == ["client_gone"]


async def _until_booked(front: Front) -> None:
    while not front.rows():
        await asyncio.sleep(0.01)
