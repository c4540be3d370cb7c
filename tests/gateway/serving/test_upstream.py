"""Requests as they leave for a provider, seen by real servers: what is sent, through whom, what breaks."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from labrunner.gateway.dialects.speech import Ask
from labrunner.gateway.serving.headers import Headers
from labrunner.gateway.serving.upstream import LineBroken, LineSilent, Opened, Wait, find_proxy, open_client

SMALL = b'{"model": "m"}'
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nset-cookie: a=b\r\n\r\nhello"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass
class Wiretap:
    """A server that writes down what comes, byte by byte, and says the same to all."""

    said: bytes = HELLO
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                self.bodies.append(await reader.readexactly(int(length[0].split(b":")[1]) if length else 0))
                writer.write(self.said)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def names(self) -> list[str]:
        """Names of the last request's headers, in order."""
        return [line.split(b":")[0].decode().lower() for line in self.heads[-1].split(b"\r\n")[1:-2]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    writers: list[asyncio.StreamWriter] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await serve(reader, writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for writer in writers:
            writer.transport.abort()


@pytest.fixture
async def tap() -> AsyncIterator[Wiretap]:
    wiretap = Wiretap()
    async with listening(wiretap.serve) as wiretap.port:
        yield wiretap


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)  # the machine's own are not what is tested
        monkeypatch.delenv(name.upper(), raising=False)


def make_ask(body: bytes = SMALL, **more: Any) -> Ask:
    return Ask(protocol="openai_chat", purpose="generate", path="/chat/completions", body=body, **more)


async def read(opened: Opened) -> bytes:
    try:
        return b"".join([piece async for piece in opened.pieces()])
    finally:
        opened.close()


async def send(url: str, *asks: Ask, headers: Headers = (), silence_s: float = 30.0) -> list[bytes]:
    client = open_client(url, Wait(connect_s=5.0, silence_s=silence_s))
    async with client.session:
        return [await read(await client.send(ask, headers)) for ask in asks]


async def test_only_what_was_chosen_is_sent_and_one_connection_serves_many(tap: Wiretap) -> None:
    headers = [("x-title", "t"), ("accept-encoding", "gzip"), ("authorization", "Bearer k")]
    asks = [make_ask(query=(("alt", "sse"),))] * 3
    assert await send(f"http://127.0.0.1:{tap.port}/v1/", *asks, headers=headers) == [b"hello"] * 3
    assert tap.heads[-1].startswith(b"POST /v1/chat/completions?alt=sse HTTP/1.1\r\n")
    assert sorted(tap.names()) == ["accept-encoding", "authorization", "content-length", "host", "x-title"]
    assert tap.bodies == [SMALL] * 3
    assert tap.connections == 1


async def test_a_large_request_arrives_whole(tap: Wiretap) -> None:
    body = b"x" * (3 << 20)
    await send(f"http://127.0.0.1:{tap.port}/v1", make_ask(body))
    assert tap.bodies == [body]


async def test_a_password_in_the_address_takes_the_place_of_the_key(tap: Wiretap) -> None:
    await send(
        f"http://me:p%40ss@127.0.0.1:{tap.port}/v1", make_ask(), headers=[("authorization", "Bearer k")]
    )
    told = base64.b64encode(b"me:p@ss")
    assert [line for line in tap.heads[-1].split(b"\r\n") if b"uthorization" in line] == [
        b"authorization: Basic " + told
    ]


async def test_a_provider_is_reached_through_the_proxy_of_the_environment(
    tap: Wiretap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{tap.port}")  # as people write it
    assert await send("http://model.example/v1", make_ask()) == [b"hello"]
    assert tap.heads[-1].startswith(b"POST http://model.example/v1/chat/completions HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("env", "url", "found"),
    [
        ({"https_proxy": "http://p:1"}, "https://a.example/v1", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "http://a.example/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://a.example/v1", "http://p:1"),
        ({"all_proxy": "p:1", "no_proxy": "b.example,a.example"}, "http://a.example:80/v1", None),
        ({"all_proxy": "p:1", "no_proxy": "127.0.0.1"}, "http://me:x@127.0.0.1:80/v1", None),
    ],
)
def test_proxies_are_those_that_the_environment_names(
    env: dict[str, str], url: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)  # what is tested
    assert find_proxy(url) == found


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello", "payload"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", "payload"),
        (b"nonsense\r\n\r\n", "http"),
        (b"", "disconnected"),
    ],
)
async def test_what_breaks_off_or_is_no_http_is_a_broken_line(said: bytes, told: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(SMALL)
        writer.write(said)
        writer.close()

    async with listening(serve) as port:
        with pytest.raises(LineBroken, match=f"(?i){told}"):
            await send(f"http://127.0.0.1:{port}/v1", make_ask())


@pytest.mark.parametrize("said", [b"", HELLO.replace(b": 5", b": 50")])
async def test_silence_before_and_within_an_answer_is_told_as_such(said: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(SMALL)
        writer.write(said)
        await reader.read()
        writer.close()

    async with listening(serve) as port:
        with pytest.raises(LineSilent):
            await send(f"http://127.0.0.1:{port}/v1", make_ask(), silence_s=0.2)


async def test_a_provider_that_reads_nothing_is_not_waited_for_without_end() -> None:
    over, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        while await reader.read(1 << 20):
            pass
        writer.close()
        closed.set()

    async with listening(serve) as port:
        client = open_client(f"http://127.0.0.1:{port}/v1", Wait(connect_s=0.2, silence_s=0.2))
        async with client.session:
            with pytest.raises(LineSilent):
                await client.send(make_ask(b"x" * (32 << 20)), [])
        over.set()
        await closed.wait()
