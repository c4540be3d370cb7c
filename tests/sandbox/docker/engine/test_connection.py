"""Calls and streams against servers of our own, where a real engine would not do what is asked here."""

import asyncio
import io
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from labrunner.sandbox.docker.engine.address import find_address
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineGone, EngineRefused, StreamsEnded
from labrunner.sandbox.docker.engine.hijacked import Attachment

UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@asynccontextmanager
async def engine_that(
    say: Callable[[str], list[bytes]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that answers with what `say` gives for a call, piece by piece, and then hangs up."""
    asked: list[str] = []
    served: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        try:
            await talk(reader, writer)
        except OSError:  # whoever asked has left
            return
        finally:
            writer.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = (await reader.readuntil(b"\r\n\r\n")).decode().partition(" HTTP")[0]
        asked.append(call)
        told = [answer(200, b'{"ApiVersion": "1.47"}')] if call == "GET /version" else say(call)
        for piece in told:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)  # in pieces on the other side, too

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
        await asyncio.wait(served)


async def test_an_engine_at_a_port_is_asked_in_the_version_that_it_speaks() -> None:
    async with engine_that(lambda call: [answer(200, b'{"ServerVersion": "27.1"}')]) as (place, asked):
        engine = Engine(f"tcp://{place}")
        assert (await engine.facts()).version == "27.1"
        assert (await engine.facts()).version == "27.1"
        await engine.close()
    assert asked == ["GET /version", "GET /v1.47/info", "GET /v1.47/info"]


async def test_a_refusal_keeps_its_status_and_says_what_was_done() -> None:
    async with engine_that(lambda call: [answer(409, b'{"message": "is paused"}')]) as (place, _):
        engine = Engine(f"tcp://{place}")
        with pytest.raises(EngineRefused, match="starting a container: is paused") as refused:
            await engine.start("c")
        with pytest.raises(EngineRefused, match="attaching to a container: is paused") as unheard:
            await engine.attach("c")
        await engine.close()
    assert refused.value.status == unheard.value.status == 409


async def test_streams_are_read_frame_by_frame_however_they_come() -> None:
    out = frame(1, b"hello") + frame(2, b"") + frame(1, b"x" * 200_000)
    pieces = [UPGRADED[:20], UPGRADED[20:] + out[:3], out[3:11], out[11:], frame(1, b"cut")[:6]]
    say = {"POST /v1.47/containers/c/exec": [answer(201, b'{"Id": "e"}')]}
    async with engine_that(lambda call: say.get(call, pieces)) as (place, asked):
        engine = Engine(f"tcp://{place}")
        stream = await engine.call("c", {})
        found = []
        while (message := await stream.read_out()) is not None:
            found.append((message.stream, len(message.data)))
        stream.close()
        await engine.close()
    assert found == [(1, 5), (2, 0), (1, 200_000)]
    assert asked[-1] == "POST /v1.47/exec/e/start"


async def heard_within(attachment: Attachment, seconds: float) -> int:
    """How many times one must listen for this long until something is heard."""
    for tries in count(1):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                assert await attachment.hint()
                return tries
    raise AssertionError


async def test_reading_that_is_cancelled_between_head_and_data_loses_nothing() -> None:
    out = frame(1, b"hello")
    async with engine_that(lambda call: [UPGRADED, out[:8], b"", b"", b"", out[8:]]) as (place, _):
        engine = Engine(f"tcp://{place}")
        attachment = await engine.attach("c")
        assert await heard_within(attachment, 0.005) > 1
        attachment.close()
        await engine.close()


async def test_writing_to_streams_that_ended_is_told() -> None:
    async with engine_that(lambda call: [UPGRADED]) as (place, _):
        engine = Engine(f"tcp://{place}")
        attachment = await engine.attach("c")
        assert not await attachment.hint()
        with pytest.raises(StreamsEnded):
            await attachment.send("anybody?")
        attachment.close()
        await engine.close()


async def test_a_build_that_fails_on_the_way_is_a_refusal_and_one_that_is_cut_off_is_a_gone_engine() -> None:
    news = b'{"stream": "Step 1\\nmore"}\n{"errorDetail": {"message": "no space"}, "error": "x"}\n'
    half = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc"
    assert await build_against(answer(200, news), EngineRefused) == ["Step 1", "more"]
    assert await build_against(half, EngineGone) == []


async def build_against(told: bytes, problem: type[Exception]) -> list[str]:
    async with engine_that(lambda call: [told]) as (place, asked):
        engine, lines = Engine(f"tcp://{place}"), list[str]()

        async def build() -> None:
            async for line in engine.build(io.BytesIO(b"packed"), "tag:1", {"a": "b"}):
                lines.append(line)

        with pytest.raises(problem, match="building image tag:1"):
            await build()
        await engine.close()
    assert asked[-1].startswith("POST /v1.47/build?t=tag:1&labels=")
    return lines


async def test_tls_is_spoken_with_the_certificates_of_the_docker_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    )
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*argv.split(), *names], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "ca.pem").write_bytes((tmp_path / "cert.pem").read_bytes())
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    theirs.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    theirs.verify_mode = ssl.CERT_REQUIRED
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    told = {"GET /v1.47/info": [answer(200, b'{"ServerVersion": "27.1"}')]}
    async with engine_that(lambda call: told.get(call, [UPGRADED, frame(1, b"hello")]), theirs) as (place, _):
        engine = Engine(f"tcp://{place}")
        assert (await engine.facts()).version == "27.1"
        attachment = await engine.attach("c")
        assert await attachment.hint()
        attachment.close()
        await engine.close()


def test_an_empty_address_is_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(EngineGone, match=r"DOCKER_HOST is not set and there is no .*/nobody"):
        find_address("", default=tmp_path / "nobody")


def test_certificates_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.delenv("DOCKER_CERT_PATH", raising=False)
    with pytest.raises(EngineGone, match="DOCKER_CERT_PATH is not"):
        find_address("tcp://127.0.0.1:2376")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(EngineGone, match=r"DOCKER_HOST is 'tcp://127.0.0.1:2376': .*No such file"):
        find_address("tcp://127.0.0.1:2376")
