"""Agents that try to get around the door to models, or to use up what others need of it."""

import asyncio
import errno
import gzip
import json
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.gateway.reception import MAX_UNHEARD
from labrunner.gateway.recording.calljournal import open_journal, read_calls
from labrunner.gateway.serving.allowance import Allowance
from labrunner.gateway.serving.wire import BadRequest, ClientPatience
from labrunner.records.facts.model_call import BodyRow, CallRow
from tests.kit.gateway.front import TOKEN, Front, make_client, run_gateway, speak
from tests.kit.gateway.provider import KEY, Bomb, Provider, Redirect, run_provider

BODY = {"model": "gpt-4o", "messages": [], "max_tokens": 5}
PATH = "/openai/chat/completions"


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def write_request(path: str, body: bytes, *headers: str, token: str = TOKEN) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: x", f"authorization: Bearer {token}", *headers]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_the_token_of_another_attempt_opens_no_door_but_its_own(
    tmp_path: Path, provider: Provider
) -> None:
    async with run_gateway(tmp_path / "a", provider) as one, run_gateway(tmp_path / "b", provider) as other:
        other.callers.remove(other.caller)
        other.callers.add(replace(other.caller, token="another"))
        for front, token in ((one, "another"), (other, TOKEN)):
            answer = await speak(front, write_request(PATH, json.dumps(BODY).encode(), token=token))
            assert answer.startswith(b"HTTP/1.1 401 ")
        assert (provider.got, one.rows(), other.rows()) == ([], [], [])


async def test_on_a_shared_listener_each_call_is_booked_to_whose_token_it_has(
    tmp_path: Path, provider: Provider
) -> None:
    (tmp_path / "b").mkdir()
    async with run_gateway(tmp_path / "a", provider) as front:
        other = replace(front.caller, token="another", journal=open_journal(tmp_path / "b"))
        front.callers.add(other)
        both = write_request(PATH, json.dumps(BODY).encode(), token="another")
        both += write_request(PATH, json.dumps(BODY).encode(), "connection: close")
        answer = await speak(front, both)
        assert (answer.count(b"HTTP/1.1 200 "), answer.count(b"HTTP/1.1 401 ")) == (1, 1)
        assert (len(front.rows()), len(list(read_calls(tmp_path / "b")))) == (0, 1)
        other.journal.close()


@pytest.mark.parametrize(
    "path",
    [
        *("/openai/../../evil", "/openai/%2e%2e/evil", "/openai//evil.test/chat/completions", "/x"),
        *("/openai/chat/completions/../../../evil", "/openai/chat/completions%0d%0ax:%20y"),
        *("/openai@evil.test/", "/openai/chat/completions%00", "/openai/v1/../x", "/openai/files"),
        *("/gemini/v1beta/models/a/../../b:generateContent", "/gemini/v1beta/models/..:generateContent"),
        *("/gemini/v1beta/models/a%2f..%2f..%2fb:generateContent", "/gemini/v1beta/models/a%3f:countTokens"),
        "/gemini/v1beta/models/a?x:generateContent",
    ],
)
async def test_no_path_leads_out_of_those_that_are_known(
    tmp_path: Path, provider: Provider, path: str
) -> None:
    async with run_gateway(tmp_path, provider) as front:
        answer = await speak(front, write_request(path, json.dumps(BODY).encode(), "connection: close"))
        assert answer[:12] in (b"HTTP/1.1 404", b"HTTP/1.1 400")
        assert provider.got == []


async def test_a_body_told_in_two_ways_is_one_to_the_provider(tmp_path: Path, provider: Provider) -> None:
    body = json.dumps(BODY).encode()
    hidden = b"GET /openai/models HTTP/1.1\r\nhost: x\r\n\r\n"
    head = write_request(PATH, b"", "transfer-encoding: chunked").replace(b"length: 0", b"length: 4")
    said = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) + hidden
    async with run_gateway(tmp_path, provider) as front:
        answer = await speak(front, said)
        assert answer.count(b"HTTP/1.1 200 ") <= 1
        assert b"HTTP/1.1 401 " in answer or answer.startswith(b"HTTP/1.1 400 ")
        assert [got.body for got in provider.got] in ([], [BODY])


async def test_headers_of_a_client_can_not_move_the_key(tmp_path: Path, provider: Provider) -> None:
    given = ["x-api-key: stolen", "x-forwarded-host: evil.test", "via: 1.1 evil.test", "cookie: a=b"]
    given += ["proxy-authorization: Basic x", "connection: close, authorization", "x: y\r\n z: w"]
    async with run_gateway(tmp_path, provider) as front:
        said = write_request(PATH, json.dumps(BODY).encode(), *given)
        assert (await speak(front, said)).startswith(b"HTTP/1.1 200 ")
        (got,) = provider.got
        names = {name.lower() for name in got.headers}
        assert got.headers["Authorization"] == f"Bearer {KEY}"
        assert not names & {"x-api-key", "x-forwarded-host", "via", "proxy-authorization", "cookie", "x", "z"}


async def test_a_query_without_end_is_the_clients_mistake(tmp_path: Path, provider: Provider) -> None:
    async with run_gateway(tmp_path, provider) as front:
        answer = await speak(front, write_request(f"{PATH}?" + "a&" * 200, b"{}"))
        assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_redirect_is_not_followed_with_the_key(tmp_path: Path, provider: Provider) -> None:
    async with (
        run_provider() as other,
        run_gateway(tmp_path, provider) as front,
        make_client(front) as client,
    ):
        for place in (f"{other.url}/v1/chat/completions", "//evil.test/", "/v1/elsewhere"):
            provider.plan.append(Redirect(to=place))
            answer = await client.post(PATH, json=BODY, follow_redirects=False)
            assert (answer.status_code, "location" in answer.headers) == (307, False)
        assert (len(provider.got), other.got) == (3, [])
        assert [row.status for row in front.rows()] == [307] * 3


async def test_an_answer_without_a_body_is_not_seen_before_its_row_is_written(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        journal = front.caller.journal
        write = journal.write

        def write_slowly(row: CallRow, bodies: Sequence[BodyRow]) -> None:
            time.sleep(0.3)  # a slow disk
            write(row, bodies)

        monkeypatch.setattr(journal, "write", write_slowly)  # only the pace of a disk
        provider.plan.append(Redirect(to="/v1/elsewhere"))
        await client.post(PATH, json=BODY, follow_redirects=False)
        assert [row.status for row in front.rows()] == [307]


async def test_an_answer_that_inflates_without_end_passes_and_costs_no_memory(
    tmp_path: Path, provider: Provider
) -> None:
    provider.plan.append(Bomb(size=300 << 20))
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        before = memory()
        headers = {"accept-encoding": "gzip"}
        async with client.stream("POST", PATH, json=BODY, headers=headers) as answer:
            size = sum([len(piece) async for piece in answer.aiter_raw()])
        assert size < 2 << 20
        (row,) = front.rows()
        assert row.trouble == "the body inflates to more than can be read"
        assert memory() - before < 600 << 20
        assert (await client.post(PATH, json=BODY)).status_code == 200


async def test_a_request_that_inflates_without_end_is_refused(tmp_path: Path, provider: Provider) -> None:
    packed = gzip.compress(bytes(200 << 20), 9)
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        before = memory()
        answer = await client.post(PATH, content=packed, headers={"content-encoding": "gzip"})
        assert answer.status_code == 415
        assert provider.got == []
        assert memory() - before < 200 << 20


async def test_a_gigabyte_is_refused_in_bounded_memory(tmp_path: Path, provider: Provider) -> None:
    head = write_request(PATH, b"").replace(b"length: 0", b"length: %d" % (1 << 30))
    async with run_gateway(tmp_path, provider) as front:
        before = memory()
        answer = await speak(front, head, *[bytes(1 << 20)] * 1024)
        assert answer[:12] in (b"HTTP/1.1 413", b"")  # nothing, for one that goes on sending
        assert memory() - before < 300 << 20
        assert provider.got == []


async def test_large_requests_at_once_are_bounded_together(tmp_path: Path, provider: Provider) -> None:
    half = b'{"model": "' + b"x" * (40 << 20)
    head = write_request(PATH, b"").replace(b"length: 0", b"length: %d" % (60 << 20))
    async with run_gateway(tmp_path, provider) as front:
        before = memory()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(speak(front, head, half)) for _ in range(8)]
            done, waiting = await asyncio.wait(tasks, timeout=20, return_when=asyncio.FIRST_COMPLETED)
            assert memory() - before < 600 << 20
            assert all(task.result().startswith(b"HTTP/1.1 503 ") or task.result() == b"" for task in done)
            for task in waiting:
                task.cancel()
        async with make_client(front) as client, asyncio.timeout(20):
            while (await client.post(PATH, json=BODY)).status_code != 200:
                await asyncio.sleep(0.01)


def test_what_a_request_held_is_given_back() -> None:
    allowance = Allowance(10)
    with allowance.holding() as take:
        take(6)
        with allowance.holding() as other, pytest.raises(BadRequest):
            other(5)
        take(4)
    with allowance.holding() as take:
        take(10)


@pytest.mark.parametrize("part", [b"[],", b'{"a":[]},', b'{"role":"user","content":"a"},', b'"a",', b"1,"])
async def test_a_body_of_countless_parts_is_refused_and_holds_up_nobody(
    tmp_path: Path, provider: Provider, part: bytes
) -> None:
    body = b'{"model": "m", "messages": [' + part * ((20 << 20) // len(part)) + b"1]}"
    async with run_gateway(tmp_path, provider) as front, make_client(front) as client:
        async with asyncio.TaskGroup() as group:
            large = group.create_task(speak(front, write_request(PATH, body, "connection: close")))
            while not large.done():
                assert (await client.post(PATH, json=BODY, timeout=10)).status_code == 200
        assert large.result().startswith(b"HTTP/1.1 413 ")
        assert "can't be read: it has more than" in large.result().decode()


@pytest.fixture
def many_files() -> Iterator[int]:
    """As many files as ten thousand clients take."""
    wanted, (soft, hard) = 10_000, resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted + 1000:
        pytest.skip(f"this process may have {hard} files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 1000), hard))
    yield wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_ten_thousand_connections_shut_nobody_out(
    tmp_path: Path, provider: Provider, many_files: int
) -> None:
    async with run_gateway(tmp_path, provider) as front:
        with ExitStack() as stack:
            for _ in range(many_files // 500):
                knock(500, int(front.url.rpartition(":")[2]), stack)
                await be_served(front)
                assert len(asyncio.all_tasks()) < 200


async def be_served(front: Front) -> None:
    async with make_client(front) as client:
        assert (await client.post(PATH, json=BODY)).status_code == 200


def knock(times: int, port: int, stack: ExitStack) -> None:
    """Connect, say nothing, stay."""
    for _ in range(times):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        assert client.connect_ex(("127.0.0.1", port)) in {0, errno.EINPROGRESS}


async def test_clients_that_hang_leave_the_others_alone(tmp_path: Path, provider: Provider) -> None:
    """Slowly sent heads and bodies, answers that nobody reads, providers that say nothing."""
    patience = ClientPatience(idle_s=0.5, head_s=0.5, body_s=0.5, reading_s=0.5)
    request = write_request(PATH, json.dumps({**BODY, "stream": True}).encode())
    async with run_gateway(tmp_path, provider, patience=patience, silence_s=1.0, max_retries=0) as front:
        provider.plan.extend(["hang"] * 3)
        async with asyncio.TaskGroup() as group:
            silent = [group.create_task(speak(front, request)) for _ in range(3)]
            while len(provider.got) < 3:
                await asyncio.sleep(0.01)
            slow = [group.create_task(speak(front, request[:cut])) for cut in (0, 9, 60, -3) * 5]
            await be_served(front)
        assert all(b" 504 " in task.result() for task in silent)
        assert all(b" 200 " not in task.result() for task in slow)


async def test_whoever_floods_from_one_address_shuts_out_nobody_who_comes_from_another(
    tmp_path: Path, provider: Provider
) -> None:
    body = json.dumps(BODY).encode()
    said = write_request(PATH, body, "connection: close")
    async with run_gateway(tmp_path, provider) as front:
        host, port = front.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=("127.0.0.3", 0))
        writer.write(said[:20])
        flood = [
            await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
            for _ in range(2 * MAX_UNHEARD)
        ]
        evicted = [asyncio.ensure_future(each.read()) for each, _ in flood[:MAX_UNHEARD]]
        await asyncio.wait_for(asyncio.wait(evicted), 30)  # its own oldest made room
        writer.write(said[20:])
        assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 200 ")
        for _, each in (*flood, (reader, writer)):
            each.close()
