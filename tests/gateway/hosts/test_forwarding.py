import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kit.gateway.hostfront import HostFront, run_hosts
from tests.kit.gateway.sites import Site, find_address, run_site

GET = b"GET http://site.test/ HTTP/1.1\r\nhost: site.test\r\n"
CLOSE = b"connection: close\r\n\r\n"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with run_site(tmp_path) as running:
        yield running


@asynccontextmanager
async def run_front(tmp_path: Path, site: Site) -> AsyncIterator[HostFront]:
    names = {"site.test": [[site.address]], "other.test": [[site.address]]}
    async with run_hosts(tmp_path, ["site.test", "*.site.test", site.address], names) as front:
        yield front


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        (b"GET http://site.test/ HTTP/1.1\r\nhost: other.test\r\n\r\n", b"400", "other_host"),
        (b"GET http://site.test/ HTTP/1.1\r\nhost: site.test:81\r\n\r\n", b"400", "other_host"),
        (b"GET http://site.test/ HTTP/1.1\r\nhost: site.test@other.test\r\n\r\n", b"400", "other_host"),
        (b"GET http://site.test/ HTTP/1.1\r\nhost: \r\n\r\n", b"400", "other_host"),
        (
            b"GET http://site.test/ HTTP/1.1\r\nhost: site.test\r\nhost: other.test\r\n\r\n",
            b"400",
            "bad_request",
        ),
        (b"GET http://other.test/ HTTP/1.1\r\nhost: site.test\r\n\r\n", b"403", "not_allowed"),
        (b"GET http://site.test@other.test/ HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (b"GET http://other.test#site.test/ HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (b"GET https://site.test/ HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (b"GET / HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (b"OPTIONS * HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (b"GET http://site.test/a\x00b HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (b"GET http://site.test/ b HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (b"GET http://s\xc3\xadte.test/ HTTP/1.1\r\nhost: site.test\r\n\r\n", b"400", "bad_request"),
        (GET + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"400", "bad_request"),
        (GET + b"content-length: 5\r\ncontent-length: 6\r\n\r\n", b"400", "bad_request"),
        (GET + b"transfer-encoding: xchunked\r\n\r\n", b"501", "bad_request"),
        (GET + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n", b"501", "bad_request"),
        (GET + b"transfer-encoding : chunked\r\n\r\n", b"400", "bad_request"),
        (GET + b"x: a\rb\r\n\r\n", b"400", "bad_request"),
        (GET + b"x: a\x00b\r\n\r\n", b"400", "bad_request"),
        (GET + b"upgrade: websocket\r\nconnection: upgrade\r\n\r\n", b"501", "upgrade"),
        (GET + b"x: " + b"a" * 70_000, b"431", "bad_request"),
        (b"GET http://site.test/ HTTP/2.0\r\nhost: site.test\r\n\r\n", b"505", "bad_request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"505", "bad_request"),
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n", b"400", "bad_request"),
        (b"CONNECT http://site.test:443 HTTP/1.1\r\nhost: x\r\n\r\n", b"400", "bad_request"),
        (b"CONNECT site.test:443 HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", b"400", "bad_request"),
    ],
)
async def test_what_is_no_plain_request_to_one_allowed_host_is_refused(
    tmp_path: Path, site: Site, said: bytes, status: bytes, reason: str
) -> None:
    async with run_front(tmp_path, site) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(said)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert len(re.findall(rb"HTTP/1.1 \d", answer)) == 1
        assert [(each.end, each.reason) for each in front.events()] == [("refused", reason)]
    assert site.seen == []


async def test_what_belongs_to_a_connection_does_not_pass(tmp_path: Path, site: Site) -> None:
    said = b"POST http://SITE.test.:80/hops?a=b HTTP/1.1\r\nHOST: site.TEST\r\nConnection: x-hop, close\r\n"
    said += b"x-hop: 1\r\nproxy-authorization: Basic eA==\r\nproxy-connection: keep-alive\r\nte: gzip\r\n"
    said += b"Keep-Alive: 5\r\nupgrade: h2c\r\nhttp2-settings: AA\r\nexpect: 100-continue\r\nx-kept: 1\r\n"
    said += b"transfer-encoding: chunked\r\ntrailer: x-end\r\n\r\n3\r\nabc\r\n0\r\nx-end: 1\r\n\r\n"
    async with run_front(tmp_path, site) as front:
        answer = await front.speak(said)
    assert answer.startswith(b"HTTP/1.1 100 \r\n")
    (seen,) = site.seen
    assert (seen.method, seen.target, seen.size) == ("POST", "/hops?a=b", 3)
    assert sorted(seen.headers) == [
        ("connection", "close"),
        ("host", "site.test"),
        ("transfer-encoding", "chunked"),
        ("x-kept", "1"),
    ]
    head = answer.partition(b"\r\n\r\n")[2].partition(b"\r\n\r\n")[0].lower()
    assert (b"x-hop" in head, b"proxy-authenticate" in head, b"x-kept: 2" in head) == (False, False, True)


async def test_requests_in_one_go_are_answered_in_order_each_checked(tmp_path: Path, site: Site) -> None:
    other = b"GET http://other.test/ HTTP/1.1\r\nhost: other.test\r\n\r\n"
    body = b"content-length: %d\r\n\r\n%s" % (len(other), other)
    async with run_front(tmp_path, site) as front:
        answer = await front.speak(GET + b"\r\n" + other + GET + body + GET + CLOSE)
        events = front.events()
    assert re.findall(rb"HTTP/1.1 (...) ", answer) == [b"200", b"403", b"200", b"200"]
    assert [each.size for each in site.seen] == [0, len(other), 0]
    assert [each.reason for each in events] == [None, "not_allowed", None, None]


async def test_a_redirect_is_the_clients_to_follow(tmp_path: Path, site: Site) -> None:
    said = GET.replace(b"test/ ", b"test/redirect?to=http://other.test/ ") + CLOSE
    async with run_front(tmp_path, site) as front:
        answer = await front.speak(said)
        assert (answer[:12], b"\r\nLocation: http://other.test/\r\n" in answer) == (
            b"HTTP/1.1 302",
            True,
        ) or (b"\r\nlocation: http://other.test/\r\n" in answer)
    assert len(site.seen) == 1


async def test_an_answer_that_breaks_off_does_not_look_whole(tmp_path: Path, site: Site) -> None:
    async with run_front(tmp_path, site) as front:
        answer = await front.speak(GET.replace(b"test/ ", b"test/cut ") + CLOSE)
        (event,) = front.events()
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"half")
    assert (event.end, event.reason) == ("failed", "cut")


@asynccontextmanager
async def run_bad_site(answer: bytes) -> AsyncIterator[str]:
    """A host that answers whatever a test wants."""
    address = find_address()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    try:
        server = await asyncio.start_server(serve, address, 80)
    except PermissionError:
        pytest.skip("this user may not listen on ports below 1024")
    async with server:
        yield address


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", b"502"),
        (b"nonsense\r\n\r\n", b"502"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", b"502"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000, b"502"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", b"502"),
        (b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab", b"200"),
        (b"HTTP/1.0 200 OK\r\n\r\nab", b"200"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            b"200",
        ),
    ],
)
async def test_a_host_that_speaks_badly_gives_one_answer(
    tmp_path: Path, answer: bytes, status: bytes
) -> None:
    async with (
        run_bad_site(answer) as address,
        run_hosts(tmp_path, ["site.test", address], {"site.test": [[address]]}) as front,
    ):
        told = await front.speak(GET + CLOSE)
        (event,) = front.events()
    assert told.startswith(b"HTTP/1.1 " + status)
    assert told.count(b"HTTP/1.1") == 1
    assert event.reason == (None if status == b"200" else "bad_answer")
    if status == b"200":
        assert b"content-length: 9" not in told.lower()
        assert b"ab" in told


async def test_inside_a_tunnel_to_plain_http_requests_are_read_and_checked(
    tmp_path: Path, site: Site
) -> None:
    """Some clients, Node among them, ask for a tunnel also where the address begins with http://."""
    connect = b"CONNECT site.test:80 HTTP/1.1\r\nhost: site.test:80\r\n\r\n"
    inner = b"GET /a HTTP/1.1\r\nhost: site.test\r\n\r\n"
    async with run_front(tmp_path, site) as front:
        for bad in (inner.replace(b"site", b"other"), inner.replace(b"/a", b"http://other.test/")):
            answer = await front.speak(connect + inner + bad + inner[:-2] + CLOSE)
            assert re.findall(rb"HTTP/1.1 (...) ", answer) == [b"200", b"200", b"400", b"200"]
        reasons = [(each.way, each.reason) for each in front.events()]
    assert reasons == [
        *(("http", None), ("http", "other_host"), ("http", None)),
        *(("http", None), (None, "bad_request"), ("http", None)),
    ]
    assert len(site.seen) == 4


async def test_a_client_that_leaves_ends_the_request_outside(tmp_path: Path, site: Site) -> None:
    async with run_front(tmp_path, site) as front:
        _, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(GET.replace(b"test/ ", b"test/hang ") + b"\r\n")
        await asyncio.wait_for(site.begun.wait(), 20)
        writer.close()
        (event,) = await front.wait_events(1)
        assert event.end == "closed"
