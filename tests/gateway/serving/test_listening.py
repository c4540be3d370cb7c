import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from labrunner.errors import StoreError
from labrunner.gateway.recording.calljournal import CallJournal, open_journal
from labrunner.gateway.serving import wire
from labrunner.gateway.serving.wire import ClientPatience
from labrunner.records.facts.model_call import BodyRow, CallRow
from labrunner.trial.door_tokens import make_door_token
from tests.kit.gateway.front import TOKEN, make_client, run_gateway, speak
from tests.kit.gateway.provider import Provider, run_provider

BODY = {"model": "gpt-4o", "messages": [], "max_tokens": 5}
PATH = "/openai/chat/completions"


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"headers": {"authorization": "Bearer wrong"}},
        {"headers": {"x-api-key": TOKEN[:-1]}},
        {"params": {"key": "wrong"}},
        {"headers": {"authorization": ""}},
    ],
)
async def test_without_the_token_nothing_is_served(
    tmp_path: Path, provider: Provider, given: dict[str, Any]
) -> None:
    async with run_gateway(tmp_path, provider) as front, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(front.url + PATH, json=BODY, **given)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"
        assert (provider.got, front.rows()) == ([], [])


async def test_who_has_an_attempts_token_before_it_is_served_again_is_told_to_come_again(
    tmp_path: Path, provider: Provider
) -> None:
    given = {"authorization": f"Bearer {make_door_token('a-dispatch', 'agent')}"}
    async with run_gateway(tmp_path, provider) as front, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(front.url + PATH, json=BODY, headers=given)
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "overloaded_error")
        assert (provider.got, front.rows()) == ([], [])


@pytest.mark.parametrize(
    "given",
    [{"headers": {"x-api-key": TOKEN}}, {"headers": {"x-goog-api-key": TOKEN}}, {"params": {"key": TOKEN}}],
)
async def test_the_token_may_come_in_any_form_of_a_key(
    tmp_path: Path, provider: Provider, given: dict[str, Any]
) -> None:
    async with run_gateway(tmp_path, provider) as front, httpx.AsyncClient(trust_env=False) as client:
        assert (await client.post(front.url + PATH, json=BODY, **given)).status_code == 200


async def test_a_token_is_worth_nothing_once_its_attempt_is_over(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        assert (await client.post(PATH, json=BODY)).status_code == 200
        front.callers.remove(front.caller)
        assert (await client.post(PATH, json=BODY)).status_code == 401


async def test_a_connection_serves_one_request_after_the_other(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider, max_clients=1) as front, make_client(front) as client:
        for body in (BODY, {**BODY, "stream": True}, {"model": None}, BODY):
            answer = await client.post(PATH, json=body)
            assert answer.status_code == (200 if body["model"] else 400)
        assert len(front.rows()) == 4


async def test_requests_that_come_before_their_turn_are_answered_in_order(
    tmp_path: Path, provider: Provider
) -> None:
    head = f"GET /openai/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n".encode()
    async with run_gateway(tmp_path, provider) as front:
        answer = await speak(front, head + b"\r\n" + head + b"connection: close\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert len(front.rows()) == 2


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET http://example.com/ HTTP/1.1\r\nhost: example.com\r\n\r\n", b"400"),
        (b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +5\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, gzip\r\n\r\n", b"501"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000, b"431"),
        (b"GET /a\x00b HTTP/1.1\r\nhost: x\r\n\r\n", b"400"),
    ],
)
async def test_what_is_no_plain_request_is_refused_and_the_connection_closed(
    tmp_path: Path, provider: Provider, said: bytes, status: bytes
) -> None:
    async with run_gateway(tmp_path, provider) as front:
        answer = await speak(front, said)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert (await speak(front, said)).startswith(b"HTTP/1.1 " + status)


async def test_a_body_without_end_is_refused(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_BODY", 1000)  # more than the true limit takes long to send
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        answer = await client.post(PATH, content=b"x" * 2000)
        assert answer.status_code == 413
        assert provider.got == []


async def test_a_client_that_sends_slowly_is_let_go(tmp_path: Path, provider: Provider) -> None:
    patience = ClientPatience(idle_s=0.2, head_s=0.2, body_s=0.2)
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 99\r\n\r\n"
    async with run_gateway(tmp_path, provider, patience=patience) as front:
        for said in (b"", b"POST / HT", head.encode() + b"{"):
            assert await speak(front, said) == b""


async def test_more_connections_than_an_attempt_may_have_are_refused(
    tmp_path: Path, provider: Provider
) -> None:
    said = f"GET /openai/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    async with run_gateway(tmp_path, provider, max_clients=3) as front:
        address = ("127.0.0.1", int(front.url.rpartition(":")[2]))
        held = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(said)
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            held.append(writer)
        answer = await speak(front, said)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"this attempt has 3 connections at once already" in answer
        for each in held:
            each.close()
        # The gateway may not have noticed yet that they are gone.
        async with make_client(front) as client, asyncio.timeout(20):
            while not await is_served(client):
                await asyncio.sleep(0.01)


async def is_served(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.post(PATH, json=BODY)).status_code == 200
    except httpx.TransportError:
        return False


async def test_a_model_that_the_attempt_may_not_use_is_not_there(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        for path in ("/other/chat/completions", "/", "/openai", "//openai/models"):
            answer = await client.post(path, json=BODY)
            assert answer.status_code == 404
        assert "/anthropic, /gemini, /openai" in (await client.post("/x", json=BODY)).text


class FullJournal(CallJournal):
    """A disk that takes nothing."""

    def write(self, row: CallRow, bodies: Sequence[BodyRow]) -> None:
        raise StoreError("writing to calls.jsonl: the disk is full")


async def ask_until_the_end(folder: Path, provider: Provider, journal: CallJournal) -> None:
    async with run_gateway(folder, provider, journal=journal) as front, make_client(front) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(PATH, json=BODY)
        await asyncio.get_running_loop().create_future()


async def test_a_disk_that_takes_no_rows_ends_the_service(tmp_path: Path, provider: Provider) -> None:
    journal = open_journal(tmp_path)
    journal.__class__ = FullJournal
    with pytest.raises(ExceptionGroup) as caught:
        await ask_until_the_end(tmp_path, provider, journal)
    assert caught.value.subgroup(StoreError) is not None
    journal.close()


async def test_small_pieces_do_not_wait_for_each_other(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = asyncio.open_connection, list[int]()

    async def look(*, sock: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return await real(sock=sock)

    monkeypatch.setattr(asyncio, "open_connection", look)  # the socket of a connection is nobody's to see
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        assert (await client.post(PATH, json=BODY)).status_code == 200
    assert seen == [1]
