import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labrunner.gateway.hosts.clienthello import ALERT
from tests.kit.gateway.greetings import greet, split_records
from tests.kit.gateway.hostfront import HostFront, run_hosts
from tests.kit.gateway.sites import find_address

NAME = "site.test"


@dataclass(kw_only=True)
class Listener:
    """A server of plain bytes: says its piece, keeps what it hears, and ends when the other does."""

    address: str
    port: int
    heard: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def run_listener(
    port: int = 443, says: bytes = b"welcome", first: bool = False
) -> AsyncIterator[Listener]:
    listener = Listener(address=find_address(), port=port)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if first:
            writer.write(says)
        with suppress(ConnectionResetError):
            while data := await reader.read(1 << 16):
                listener.heard.append(data)
                if not first:
                    writer.write(says)
        writer.close()

    try:
        server = await asyncio.start_server(serve, listener.address, port)
    except PermissionError:
        pytest.skip("this user may not listen on ports below 1024")
    async with server:
        yield listener


async def open_tunnel(
    front: HostFront, target: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    """Ask for a tunnel: the connection, and the head of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n".encode())
    return reader, writer, await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)


async def say(front: HostFront, target: str, *pieces: bytes, then_end: bool = True) -> bytes:
    """Speak inside a tunnel; what comes back, until it is closed."""
    reader, writer, head = await open_tunnel(front, target)
    assert head.startswith(b"HTTP/1.1 200 ")
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if then_end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def lines(listener: Listener) -> list[str]:
    return [NAME, f"{NAME}:22", listener.address, f"{listener.address}:22"]


def names(listener: Listener) -> dict[str, list[list[str]]]:
    return {NAME: [[listener.address]]}


@pytest.mark.parametrize("spelling", ["site.test", "SITE.test", "site.test."])
@pytest.mark.parametrize("said", ["site.test", "Site.Test"])
async def test_a_greeting_with_the_name_that_was_asked_for_passes(
    tmp_path: Path, spelling: str, said: str
) -> None:
    async with run_listener() as listener, run_hosts(tmp_path, lines(listener), names(listener)) as front:
        greeting = greet(said)
        assert (await say(front, f"{spelling}:443", greeting, b"more")).startswith(b"welcome")
        (event,) = await front.wait_events(1)
        assert b"".join(listener.heard) == greeting + b"more"
        assert (event.sent, event.end) == (len(greeting) + 4, "closed")


@pytest.mark.parametrize("name", ["other.test", "www.site.test", "site.test.evil.net", None])
async def test_another_name_in_the_greeting_is_refused_and_no_byte_passes(
    tmp_path: Path, name: str | None
) -> None:
    async with run_listener() as listener, run_hosts(tmp_path, lines(listener), names(listener)) as front:
        greeting = greet(name)
        for pieces in ([greeting], [greeting[:50], greeting[50:]], [split_records(greeting, 1)]):
            assert await say(front, f"{NAME}:443", *pieces, then_end=False) == ALERT
        events = await front.wait_events(3)
        assert {(each.end, each.reason, each.sent) for each in events} == {("refused", "other_name", 0)}
        assert listener.heard == []


async def test_a_name_in_pieces_of_one_byte_is_read(tmp_path: Path) -> None:
    async with run_listener() as listener, run_hosts(tmp_path, lines(listener), names(listener)) as front:
        reader, writer, _ = await open_tunnel(front, f"{NAME}:443")
        for byte in split_records(greet(NAME), 1):
            writer.write(bytes([byte]))
            await writer.drain()
        assert await asyncio.wait_for(reader.readexactly(7), 20) == b"welcome"
        writer.close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nhost: other.test\r\n\r\n", b"SSH-2.0-x\r\n", b"\x00"])
async def test_what_is_no_tls_does_not_pass_to_443(tmp_path: Path, said: bytes) -> None:
    async with run_listener() as listener, run_hosts(tmp_path, lines(listener), names(listener)) as front:
        for target in (f"{NAME}:443", f"{listener.address}:443"):
            assert await say(front, target, said, then_end=False) == b""
        assert [each.reason for each in await front.wait_events(2)] == ["not_tls", "not_tls"]
        assert listener.heard == []


async def test_on_443_it_does_not_matter_that_the_port_is_named(tmp_path: Path) -> None:
    async with run_listener() as listener:
        allowed = [f"{NAME}:443", listener.address]
        async with run_hosts(tmp_path, allowed, names(listener)) as front:
            assert await say(front, f"{NAME}:443", b"hello", then_end=False) == b""
            assert await say(front, f"{NAME}:443", greet(NAME)) == b"welcome"


async def test_to_an_address_tls_needs_no_name_and_has_no_other(tmp_path: Path) -> None:
    async with run_listener() as listener, run_hosts(tmp_path, lines(listener)) as front:
        target = f"{listener.address}:443"
        assert await say(front, target, greet(None)) == b"welcome"
        assert await say(front, target, greet("site.test"), then_end=False) == ALERT


async def test_where_the_list_names_a_port_other_protocols_pass_and_the_host_may_speak_first(
    tmp_path: Path,
) -> None:
    welcome = run_listener(22, b"SSH-2.0-x\r\n", first=True)
    async with welcome as listener, run_hosts(tmp_path, lines(listener), names(listener)) as front:
        reader, writer, _ = await open_tunnel(front, f"{NAME}:22")
        assert await asyncio.wait_for(reader.readline(), 20) == b"SSH-2.0-x\r\n"
        writer.write(b"SSH-2.0-y\r\n")
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        assert await say(front, f"{NAME}:22", greet("other.test"), then_end=False) in (
            b"SSH-2.0-x\r\n" + ALERT,
            ALERT,
        )
        assert b"".join(listener.heard) == b"SSH-2.0-y\r\n"


async def test_a_greeting_that_does_not_end_is_let_go(tmp_path: Path) -> None:
    async with run_listener() as listener:
        async with run_hosts(tmp_path, lines(listener), names(listener), greeting_s=0.2) as front:
            for pieces in ([], [greet(NAME)[:-1]]):
                assert await say(front, f"{NAME}:443", *pieces, then_end=False) == b""
            endless = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes((1 << 14) - 4)
            assert await say(front, f"{NAME}:443", *[endless] * 10, then_end=False) == b""
            reasons = [each.reason for each in await front.wait_events(3)]
        assert reasons == ["timeout", "timeout", "not_tls"]
        assert listener.heard == []


async def test_a_tunnel_through_which_nothing_passes_is_let_go(tmp_path: Path) -> None:
    async with (
        run_listener() as listener,
        run_hosts(tmp_path, lines(listener), names(listener), idle_s=0.3) as front,
    ):
        reader, writer, _ = await open_tunnel(front, f"{NAME}:443")
        writer.write(greet(NAME))
        assert await asyncio.wait_for(reader.readexactly(7), 20) == b"welcome"
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        (event,) = await front.wait_events(1)
        assert (event.end, event.reason) == ("failed", "timeout")


async def test_a_client_that_ends_still_hears_the_rest(tmp_path: Path) -> None:
    """Half of a connection closes by itself: git and others rely on it."""
    async with run_listener(22) as listener, run_hosts(tmp_path, lines(listener), names(listener)) as front:
        assert await say(front, f"{NAME}:22", b"a") == b"welcome"


async def test_an_attempt_that_is_over_has_no_tunnel_left_and_each_is_recorded(tmp_path: Path) -> None:
    async with run_listener() as listener, run_hosts(tmp_path, lines(listener), names(listener)) as front:
        tunnels = [await open_tunnel(front, f"{NAME}:443") for _ in range(3)]
        for reader, writer, _ in tunnels:
            writer.write(greet(NAME))
            assert await reader.readexactly(7) == b"welcome"
        await front.visitors.dismiss(front.visitor)
        assert [each.received for each in front.events()] == [7, 7, 7]
        for reader, writer, _ in tunnels:
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
        assert await front.speak(b"CONNECT site.test:443 HTTP/1.1\r\nhost: x\r\n\r\n") == b""
        assert len(front.events()) == 3
