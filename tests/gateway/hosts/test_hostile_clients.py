"""Clients that try to use up what others need: the door to hosts stays bounded, and goes on."""

import asyncio
import base64
import errno
import resource
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from labrunner.gateway.serving.wire import ClientPatience
from tests.kit.gateway.hostfront import TOKEN, HostFront, make_visitor, run_hosts
from tests.kit.gateway.sites import PIECE, Site, run_site

GET = b"GET http://site.test/ HTTP/1.1\r\nhost: site.test\r\n"
CLOSE = b"connection: close\r\n\r\n"
HALF = 1 << 29


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with run_site(tmp_path) as running:
        yield running


@asynccontextmanager
async def run_front(tmp_path: Path, site: Site, **service: Any) -> AsyncIterator[HostFront]:
    names = {"site.test": [[site.address]]}
    async with run_hosts(tmp_path, ["site.test", site.address], names, **service) as front:
        yield front


def memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_a_gigabyte_goes_up_and_comes_down_in_bounded_memory(tmp_path: Path, site: Site) -> None:
    async with run_front(tmp_path, site) as front:
        before = memory()
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"POST http://site.test/up HTTP/1.1\r\nhost: site.test\r\n")
        writer.write(b"content-length: %d\r\n\r\n" % HALF)
        for _ in range(HALF // len(PIECE)):
            writer.write(PIECE)
            await writer.drain()
        assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200 ")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(GET.replace(b"test/ ", b"test/big?size=%d " % HALF) + CLOSE)
        received = 0
        while data := await reader.read(1 << 20):
            received += len(data)
        writer.close()
        assert received > HALF
        assert memory() - before < 50 << 20
        events = await front.wait_events(2)
    assert site.seen[0].size == HALF
    assert (events[0].sent > HALF, events[1].received > HALF) == (True, True)


async def test_a_client_that_does_not_read_holds_up_its_host_and_no_memory(
    tmp_path: Path, site: Site
) -> None:
    async with run_front(tmp_path, site, idle_s=1.0) as front:
        before = memory()
        _, writer = await asyncio.open_connection("127.0.0.1", front.port, limit=1)
        writer.write(GET.replace(b"test/ ", b"test/big?size=%d " % HALF) + b"\r\n")
        (event,) = await front.wait_events(1)
        writer.close()
    assert event.reason == "timeout"
    assert event.received < 64 << 20
    assert memory() - before < 100 << 20


async def test_clients_that_send_slowly_are_let_go_and_others_served(tmp_path: Path, site: Site) -> None:
    patience = ClientPatience(idle_s=0.5, head_s=0.5)
    async with run_front(tmp_path, site, client=patience, idle_s=0.5, greeting_s=0.5) as front:
        partly = [b"", b"GET http://site.test/ HT", GET, GET + b"content-length: 9\r\n\r\nab"]
        partly += [
            b"CONNECT site.test:443 HTTP/1.1\r\nhost: x\r\n\r\n",
            b"CONNECT site.test:443 HTTP/1.1\r\n",
        ]
        async with asyncio.TaskGroup() as group:
            slow = [group.create_task(front.speak(said)) for said in partly * 5]
            assert b"hello 0" in await front.speak(GET + CLOSE)
        assert all(b"hello" not in each.result() for each in slow)


@pytest.fixture
def many_files() -> Iterator[int]:
    """As many files as ten thousand clients take."""
    wanted, (soft, hard) = 10_000, resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted + 1000:
        pytest.skip(f"this process may have {hard} files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 1000), hard))
    yield wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_ten_thousand_connections_shut_nobody_out(tmp_path: Path, site: Site, many_files: int) -> None:
    """On a listener that attempts share: one opens all it can, another one works on."""
    other = make_visitor(tmp_path / "other", ["site.test", site.address], "another-token")
    async with run_front(tmp_path, site, needs_token=True, max_unheard=16) as front:
        front.visitors.add(other)
        with ExitStack() as stack:
            for _ in range(many_files // 500):
                knock(500, front.port, stack)
                await serve_both(front)
                assert len(asyncio.all_tasks()) < 100
    other.journal.close()


def knock(times: int, port: int, stack: ExitStack) -> None:
    """Connect, say nothing, stay."""
    for _ in range(times):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        assert client.connect_ex(("127.0.0.1", port)) in {0, errno.EINPROGRESS}


def authorise(token: str) -> bytes:
    return b"proxy-authorization: Basic " + base64.b64encode(f"lab:{token}".encode()) + b"\r\n"


async def serve_both(front: HostFront) -> None:
    for token in (TOKEN, "another-token"):
        assert b"hello 0" in await front.speak(GET + authorise(token) + CLOSE)


async def test_an_attempt_has_only_so_many_connections_and_another_one_its_own(
    tmp_path: Path, site: Site
) -> None:
    other = make_visitor(tmp_path / "other", ["site.test", site.address], "another-token")
    async with run_front(tmp_path, site, needs_token=True, max_each=4) as front:
        front.visitors.add(other)
        held = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
            writer.write(GET + authorise(TOKEN) + b"\r\n")
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            held.append(writer)
        answer = await front.speak(GET + authorise(TOKEN) + CLOSE)
        assert answer.startswith(b"HTTP/1.1 503 ")
        reasons = Counter(each.reason for each in await front.wait_events(5))
        assert reasons == {None: 4, "too_many": 1}
        assert b"hello 0" in await front.speak(GET + authorise("another-token") + CLOSE)
        for writer in held:
            writer.close()
        async with asyncio.timeout(20):
            while b"hello 0" not in await front.speak(GET + authorise(TOKEN) + CLOSE):
                await asyncio.sleep(0.01)
    other.journal.close()


async def test_a_flood_of_refusals_is_counted(tmp_path: Path, site: Site) -> None:
    refused = GET.replace(b"site", b"evil") + b"\r\n"
    async with run_front(tmp_path, site) as front:
        for _ in range(10):
            answer = await front.speak(refused * 99 + refused[:-2] + CLOSE)
            assert answer.count(b"HTTP/1.1 403 ") == 100
    assert sum(each.times for each in front.events()) == 1000
    assert len(front.events()) < 50
