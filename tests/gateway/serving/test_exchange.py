import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from labrunner.gateway.dialects.speech import Dialect
from labrunner.gateway.metering.purse import Caps, Taking
from labrunner.gateway.recording.bodies import put_together
from labrunner.gateway.recording.calljournal import CallJournal, open_journal
from labrunner.records.facts.model_call import BodyRow, CallRow, CallTokens
from tests.kit.gateway import answers
from tests.kit.gateway.front import TOKEN, Front, make_client, run_gateway
from tests.kit.gateway.provider import KEY, Fail, Provider, run_provider
from tests.kit.gateway.requests import CASES, USER, stream_of


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


CHAT = CASES[0][3]


async def ask(front: Front, path: str, body: dict[str, Any], **more: Any) -> httpx.Response:
    async with make_client(front) as client:
        return await client.post(path, json=body, **more)


def chat(front: Front, **fields: Any) -> Any:
    return ask(front, "/openai/chat/completions", {**CHAT, **fields})


async def read_pieces(client: httpx.AsyncClient, body: dict[str, Any]) -> AsyncIterator[bytes]:
    async with client.stream("POST", "/anthropic/v1/messages", json=body) as answer:
        async for piece in answer.aiter_raw():
            yield piece


async def collect(client: httpx.AsyncClient, body: dict[str, Any], seen: bytearray) -> None:
    async for piece in read_pieces(client, body):
        seen.extend(piece)


@pytest.mark.parametrize(("protocol", "dialect", "path", "body"), CASES)
async def test_a_whole_answer_passes_unchanged_and_is_booked(
    tmp_path: Path, provider: Provider, protocol: str, dialect: Dialect, path: str, body: dict[str, Any]
) -> None:
    async with run_gateway(tmp_path, provider) as front:
        answer = await ask(front, f"/{dialect}{path}", body)
        (row,) = front.rows()
        assert answer.json() == answers.WHOLE[protocol]
        assert (row.end, row.status, row.protocol, row.streaming) == ("answered", 200, protocol, False)
        assert row.tokens is not None
        assert (row.tokens.input, row.tokens.output, row.tokens.basis) == (120, 30, "reported")
        assert (row.cost_usd, row.price_source) == (0.00042, "experiment")
        assert front.run.spent == Taking(cost_usd=Decimal("0.00042"), tokens=150, requests=1)
        assert front.run.held == front.purse.held == Taking()
        bodies = front.bodies()
        assert put_together(str(row.request), bodies) == provider.got[0].body == body
        assert put_together(str(row.answer), bodies) == answer.content


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize(("protocol", "dialect", "path", "body"), CASES)
async def test_a_stream_passes_unchanged_and_is_booked(
    tmp_path: Path,
    provider: Provider,
    protocol: str,
    dialect: Dialect,
    path: str,
    body: dict[str, Any],
    packs: bool,
) -> None:
    provider.packs = packs
    path, body = stream_of(path, body)
    async with run_gateway(tmp_path, provider) as front:
        answer = await ask(front, f"/{dialect}{path}", body)
        (row,) = front.rows()
        expected = answers.STREAMS[protocol]
        if protocol == "openai_chat":
            events = list(answers.stream_chat(with_usage=True))
            expected = b"".join(events[:-2] + events[-1:])
        assert answer.content == expected
        assert answer.headers.get("content-encoding") == (
            "gzip" if packs and protocol != "openai_chat" else None
        )
        assert (row.end, row.streaming, row.cost_usd) == ("answered", True, 0.00042)
        assert put_together(str(row.answer), front.bodies()) == answers.STREAMS[protocol]


@pytest.mark.parametrize(
    ("dialect", "name"),
    [("openai", "authorization"), ("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")],
)
async def test_the_real_key_is_outside_and_the_token_inside_and_neither_in_a_record(
    tmp_path: Path, provider: Provider, dialect: Dialect, name: str
) -> None:
    case = next(each for each in CASES if each[1] == dialect)
    secret = {"cookie": "secret-cookie", "x-strange": "secret-header", "anthropic-beta": "secret-beta"}
    async with run_gateway(tmp_path, provider) as front:
        answer = await ask(front, f"/{dialect}{case[2]}?key=secret-query", case[3], headers=secret)
    (got,) = provider.got
    sent = {key.lower(): value for key, value in got.headers.items()}
    assert sent[name].removeprefix("Bearer ") == KEY
    assert TOKEN not in str(got)
    assert not {"cookie", "x-strange"} & sent.keys()
    assert sent["anthropic-beta"] == "secret-beta"
    assert got.query == ""
    assert answer.headers["x-request-id"] == "req_1"
    assert "set-cookie" not in answer.headers
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert written
    for word in (KEY, TOKEN, "secret-"):
        assert word.encode() not in written


async def test_pieces_of_a_stream_arrive_before_its_end(tmp_path: Path, provider: Provider) -> None:
    provider.gate = asyncio.Event()
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        seen = b""
        async for piece in read_pieces(client, {**CASES[2][3], "stream": True}):
            seen += piece
            if b"message_start" in seen and not provider.gate.is_set():
                assert b"message_stop" not in seen
                provider.gate.set()
        assert seen == answers.STREAMS["anthropic"]


class GatedJournal(CallJournal):
    """Waits for the test before it writes."""

    entered = threading.Event()
    released = threading.Event()

    def write(self, row: CallRow, bodies: Sequence[BodyRow]) -> None:
        self.entered.set()
        assert self.released.wait(20)
        super().write(row, bodies)


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_the_row_is_synced_before_the_client_sees_the_end(
    tmp_path: Path, provider: Provider, is_streaming: bool
) -> None:
    journal = open_journal(tmp_path)
    journal.__class__ = GatedJournal
    GatedJournal.entered, GatedJournal.released = threading.Event(), threading.Event()
    seen = bytearray()
    async with run_gateway(tmp_path, provider, journal=journal) as front, make_client(front) as client:
        body = {**CASES[2][3], "stream": is_streaming}
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(collect(client, body, seen))
            await asyncio.to_thread(GatedJournal.entered.wait, 20)
            assert not reading.done()
            assert b"message_stop" not in seen
            assert b"service_tier" not in seen or is_streaming
            GatedJournal.released.set()
        assert (b"message_stop" in seen) is is_streaming
        assert len(front.rows()) == 1


async def test_tools_of_the_provider_are_taken_out_and_the_row_says_so(
    tmp_path: Path, provider: Provider
) -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}, {"name": "ls", "input_schema": {}}]
    body = {**CASES[2][3], "tools": tools}
    async with run_gateway(tmp_path, provider) as front:
        await ask(front, "/anthropic/v1/messages", body)
        (row,) = front.rows()
    assert provider.got[0].body["tools"] == tools[1:]
    assert row.taken_out == ("web_search",)
    async with run_gateway(tmp_path, provider, server_tools=frozenset({"web_search"})) as front:
        await ask(front, "/anthropic/v1/messages", body)
    assert provider.got[1].body["tools"] == tools


async def test_counting_lists_and_embeddings_pass(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider, caps=Caps(requests=1)) as front, make_client(front) as client:
        counted = await client.post(
            "/anthropic/v1/messages/count_tokens", json={"model": "m", "messages": USER}
        )
        models = await client.get("/openai/v1/models")
        embedded = await client.post("/openai/embeddings", json={"model": "m", "input": "x"})
        assert (counted.json(), models.json()["data"][0]["id"]) == ({"input_tokens": 9}, "m")
        assert embedded.json()["data"][0]["embedding"] == [0.5]
        rows = front.rows()
        assert [row.purpose for row in rows] == ["count_tokens", "models", "embeddings"]
        assert [row.tokens for row in rows] == [None, None, CallTokens(input=8, output=0)]
        assert front.purse.spent == Taking(cost_usd=Decimal("0.000008"), tokens=8, requests=1)


@pytest.mark.parametrize("behaviour", [Fail(status=500), Fail(status=529), Fail(status=429), "drop"])
async def test_what_fails_before_the_client_saw_anything_is_tried_again(
    tmp_path: Path, provider: Provider, behaviour: Any
) -> None:
    provider.plan.extend([behaviour, behaviour])
    async with run_gateway(tmp_path, provider) as front:
        answer = await chat(front)
        (row,) = front.rows()
    assert answer.status_code == 200
    assert [each.status for each in row.tries] == [getattr(behaviour, "status", None)] * 2
    assert all(each.error for each in row.tries)
    assert (row.end, row.cost_usd) == ("answered", 0.00042)


async def test_what_remains_is_told_as_it_came(tmp_path: Path, provider: Provider) -> None:
    provider.plan.extend([Fail(status=429, retry_after="0")] * 3)
    async with run_gateway(tmp_path, provider) as front:
        answer = await chat(front)
        (row,) = front.rows()
        assert front.purse.spent == Taking(cost_usd=Decimal(), requests=1)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "0")
    assert answer.json() == answers.ERRORS["openai_chat"]
    assert (row.end, row.status, row.tokens, row.cost_usd, len(row.tries)) == ("error", 429, None, None, 2)
    assert row.error is not None
    assert (row.error.kind, row.error.message, row.error.retry_after_s) == (
        "rate_limit_error",
        "slow down",
        0,
    )


@pytest.mark.parametrize(
    "behaviour",
    [Fail(status=400), Fail(status=429, kind="insufficient_quota"), Fail(status=429, retry_after="900")],
)
async def test_what_no_waiting_mends_is_not_tried_again(
    tmp_path: Path, provider: Provider, behaviour: Fail
) -> None:
    provider.plan.append(behaviour)
    async with run_gateway(tmp_path, provider, longest_wait_s=30.0) as front:
        answer = await chat(front)
        (row,) = front.rows()
    assert (answer.status_code, row.tries, len(provider.got)) == (behaviour.status, (), 1)
    assert answer.json()["error"]["message"] in {"no", "slow down"}


async def test_a_provider_that_asks_to_wait_is_left_alone_by_all(tmp_path: Path, provider: Provider) -> None:
    provider.plan.append(Fail(status=429, retry_after="0.5"))
    async with run_gateway(tmp_path, provider) as front, asyncio.TaskGroup() as group:
        group.create_task(chat(front))
        await provider.begun.wait()
        while not front.purse.held.requests:
            await asyncio.sleep(0)
        await asyncio.sleep(
            0.1
        )  # the refusal has arrived by now; a request that came earlier would show below
        for _ in range(3):
            group.create_task(chat(front))
    first, *others = [got.at for got in provider.got]
    assert len(others) == 4
    assert min(others) - first >= 0.45


async def test_silence_is_told_as_such_and_counts_as_all_that_was_set_aside(
    tmp_path: Path, provider: Provider
) -> None:
    provider.plan.append("hang")
    async with run_gateway(tmp_path, provider, silence_s=0.2) as front:
        answer = await chat(front)
        (row,) = front.rows()
    assert answer.status_code == 504
    assert "openai sent nothing for 0.2 s" in answer.json()["error"]["message"]
    assert (row.end, row.status) == ("unreachable", 504)
    assert row.tokens is not None
    assert (row.tokens.basis, row.tokens.output) == ("reserved", 50)


async def test_a_provider_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    async with run_provider() as gone:
        pass
    async with run_gateway(tmp_path, gone) as front:
        answer = await chat(front)
        (row,) = front.rows()
        assert front.purse.spent == Taking(cost_usd=Decimal(), requests=1)
    assert answer.status_code == 502
    assert (row.end, row.tokens, len(row.tries)) == ("unreachable", None, 2)


@pytest.mark.parametrize(("behaviour", "silence_s"), [("cut", 20.0), ("hang_midway", 0.2)])
async def test_a_stream_that_breaks_off_breaks_off_for_the_client(
    tmp_path: Path, provider: Provider, behaviour: Any, silence_s: float
) -> None:
    provider.plan.append(behaviour)
    async with run_gateway(tmp_path, provider, silence_s=silence_s) as front, make_client(front) as client:
        seen = bytearray()
        with pytest.raises(httpx.RemoteProtocolError):
            await collect(client, {**CASES[2][3], "stream": True}, seen)
        (row,) = front.rows()
        assert answers.STREAMS["anthropic"].startswith(seen)
        assert b"Hello" in seen
        assert (row.end, len(row.tries)) == ("cut", 0)
        assert row.tokens is not None
        assert (row.tokens.input, row.tokens.basis) == (120, "counted")
        assert 2 <= row.tokens.output <= 50
        assert front.purse.held == Taking()


async def test_half_a_stream_does_not_look_whole_to_a_client_for_whom_it_ends_with_its_connection(
    tmp_path: Path, provider: Provider
) -> None:
    provider.plan.append("cut")
    body = json.dumps({**CASES[2][3], "stream": True}).encode()
    head = (
        f"POST /anthropic/v1/messages HTTP/1.0\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    async with run_gateway(tmp_path, provider) as front:
        host, port = front.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode() + body)
        seen = await reader.readuntil(b"Hello")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert seen.startswith(b"HTTP/1.1 200 ")
        assert b"chunked" not in seen
        (row,) = front.rows()
        assert row.end == "cut"


@pytest.mark.parametrize("behaviour", ["hang", "hang_midway"])
async def test_a_client_that_leaves_ends_the_request_outside(
    tmp_path: Path, provider: Provider, behaviour: Any
) -> None:
    provider.plan.append(behaviour)
    seen = bytearray()
    async with run_gateway(tmp_path, provider) as front:
        async with make_client(front) as client:
            asking = asyncio.ensure_future(collect(client, {**CASES[2][3], "stream": True}, seen))
            await provider.begun.wait()
            while behaviour == "hang_midway" and b"Hello" not in seen:
                await asyncio.sleep(0.001)
            asking.cancel()
        await asyncio.wait_for(provider.left.wait(), 20)
        while front.purse.held != Taking():
            await asyncio.sleep(0.001)
        (row,) = front.rows()
        assert (row.end, row.error) == ("client_gone", None)
        assert row.tokens is not None
        assert row.tokens.basis == ("reserved" if behaviour == "hang" else "counted")
        assert front.purse.spent.tokens == row.tokens.input + row.tokens.output


async def test_a_cap_that_is_reached_is_told_and_nothing_is_sent(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider, caps=Caps(requests=1)) as front:
        await chat(front)
        answer = await chat(front)
        assert answer.status_code == 402
        told = answer.json()["error"]["message"]
        assert told.startswith(
            "lab gateway: the attempt's cap of 1 requests is reached: 1 made; to allow more"
        )
        assert front.purse.reached is not None
        assert [row.end for row in front.rows()] == ["answered", "capped"]
        assert len(provider.got) == 1


async def test_a_model_without_a_price_is_refused_where_money_is_capped(
    tmp_path: Path, provider: Provider
) -> None:
    async with run_gateway(tmp_path, provider, budget=Caps(cost_usd=Decimal(1))) as front:
        answer = await chat(front, model="nobody-knows")
        assert answer.status_code == 402
        assert "has no price" in answer.json()["error"]["message"]
        (row,) = front.rows()
        assert (row.end, row.cap, row.error and row.error.kind) == ("declined", None, "no_price")
    async with run_gateway(tmp_path, provider) as front:
        assert (await chat(front, model="nobody-knows")).status_code == 200
        assert front.rows()[-1].cost_usd is None


async def test_64_at_once_exceed_neither_the_cap_nor_the_connections(
    tmp_path: Path, provider: Provider
) -> None:
    budget = Caps(cost_usd=Decimal("0.02"))
    async with run_gateway(tmp_path, provider, budget=budget, max_connections=5) as front:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(chat(front)) for _ in range(64)]
        statuses = [task.result().status_code for task in tasks]
        assert set(statuses) == {200, 402}
        assert statuses.count(200) * Decimal("0.00042") == front.run.spent.cost_usd
        # Each sets 0.0027 aside: what is left is less than that.
        assert Decimal("0.0170") < (front.run.spent.cost_usd or 0) <= Decimal("0.02")
        assert provider.peak <= 5
        assert len(front.rows()) == 64
        assert sorted(row.ordinal for row in front.rows()) == list(range(64))


async def test_an_earlier_answer_that_is_input_again_is_set_aside_for(
    tmp_path: Path, provider: Provider
) -> None:
    body = {**CASES[1][3], "previous_response_id": "resp_1"}
    async with run_gateway(tmp_path, provider, caps=Caps(tokens=2400)) as front:
        given = [await ask(front, "/openai/responses", each) for each in (CASES[1][3], body, CASES[1][3])]
        assert [each.status_code for each in given] == [200, 402, 200]


async def test_what_is_declined_has_a_row_with_its_reason(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        refused = await client.post("/openai/files", json={})
        upgrade = {"connection": "upgrade", "upgrade": "websocket"}
        socket = await client.get("/openai/responses", headers=upgrade)
        packed = await client.post("/openai/responses", content=b"x", headers={"content-encoding": "zstd"})
        assert [each.status_code for each in (refused, socket, packed)] == [404, 426, 415]
        rows = front.rows()
        assert [(row.end, row.status, row.purpose) for row in rows] == [
            ("declined", 404, "unknown"),
            ("declined", 426, "unknown"),
            ("declined", 415, "unknown"),
        ]
        assert provider.got == []


async def test_a_stream_of_gemini_without_events_passes(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front:
        answer = await ask(front, "/gemini/v1beta/models/gemini-x:streamGenerateContent", CASES[3][3])
        assert answer.json() == answers.gemini_chunks()
        assert front.rows()[0].cost_usd == 0.00042


async def test_an_error_in_the_form_of_each_dialect(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        told = (await client.post("/anthropic/v1/nothing", json={})).json()
        assert (told["type"], told["error"]["type"]) == ("error", "not_found_error")
        told = (await client.post("/gemini/v1beta/nothing", json={})).json()
        assert (told["error"]["code"], told["error"]["status"]) == (404, "NOT_FOUND")


async def test_a_picture_passes_and_is_kept_once(tmp_path: Path, provider: Provider) -> None:
    block = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 300_000}}
    messages = [{"role": "user", "content": [block]}]
    async with run_gateway(tmp_path, provider) as front:
        for _ in range(2):
            assert (await chat(front, messages=messages)).status_code == 200
        assert (tmp_path / "bodies.jsonl").stat().st_size < 400_000
        assert json.loads(json.dumps(provider.got[1].body["messages"])) == messages
