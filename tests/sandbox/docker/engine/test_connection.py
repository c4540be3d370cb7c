"""Calls and streams against servers of our own, where a real engine would not do what is asked here."""

import asyncio
import base64
import io
import json
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from labrunner.sandbox.docker.engine.address import find_address
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.connection import Silence
from labrunner.sandbox.docker.engine.engine_errors import EngineGone, EngineRefused, StreamsEnded
from labrunner.sandbox.docker.engine.hijacked import Attachment
from labrunner.sandbox.docker.engine.logins import HUB

UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


VERSION = answer(200, b'{"ApiVersion": "1.47"}')
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>Hi</html>"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@pytest.fixture(autouse=True)
def nobody_is_logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


@asynccontextmanager
async def engine_that(
    say: Callable[[str], list[bytes]],
    tls: ssl.SSLContext | None = None,
    *,
    version: bytes = VERSION,
    stalls: bool = False,
    heads: list[str] | None = None,
) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that answers with what `say` gives for a call, piece by piece, and then hangs up.

    One that `stalls` waits for the other side to hang up.
    """
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
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        call = head.partition(" HTTP")[0]
        asked.append(call)
        if heads is not None:
            heads.append(head)
        told = [version] if call == "GET /version" else say(call)
        for piece in told:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)  # in pieces on the other side, too
        if stalls and call != "GET /version":
            await reader.read()

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


async def test_a_command_has_ended_when_the_engine_says_so_not_when_its_streams_end() -> None:
    looks = iter([{"Running": True, "ExitCode": None}, {"Running": True}, {"Running": False, "ExitCode": 7}])

    def say(call: str) -> list[bytes]:
        if call.startswith("GET"):
            return [answer(200, json.dumps(next(looks)).encode())]
        is_start = call.endswith("/start")
        return [UPGRADED + frame(2, b"no such file")] if is_start else [answer(201, b'{"Id": "e"}')]

    async with engine_that(say) as (place, _):
        engine = Engine(f"tcp://{place}")
        assert await engine.carry_out("c", ["rm", "x"], 20) == (7, "no such file")
        await engine.close()


async def test_a_command_that_never_ends_is_not_taken_for_one_that_went_well() -> None:
    def say(call: str) -> list[bytes]:
        if call.startswith("GET"):
            return [answer(200, b'{"Running": true}')]
        return [UPGRADED] if call.endswith("/start") else [answer(201, b'{"Id": "e"}')]

    async with engine_that(say) as (place, _):
        engine = Engine(f"tcp://{place}")
        with pytest.raises(EngineGone, match="running a command: the engine did not answer in time"):
            await engine.carry_out("c", ["rm", "x"], 0.3)
        await engine.close()


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


Streaming = Callable[[Engine], AsyncIterator[object]]
STREAMS: dict[str, Streaming] = {
    "pull": lambda engine: engine.pull("reg.example/tool:1"),
    "build": lambda engine: engine.build(io.BytesIO(b"packed"), "tag:1", {}),
    "archive": lambda engine: engine.archive("c", "/etc"),
}
HASTY = Silence(pull_s=0.2, build_s=0.2, archive_s=0.2)


async def heard_of(pieces: AsyncIterator[object], heard: list[object]) -> None:
    async for piece in pieces:
        heard.append(piece)


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("told", [[], [CHUNKED + chunk(b'{"stream": "Step 1"}\n')]], ids=["never", "amid"])
async def test_an_engine_that_falls_silent_is_gone(stream: Streaming, told: list[bytes]) -> None:
    heard: list[object] = []
    async with engine_that(lambda call: told, stalls=True) as (place, _):
        engine = Engine(f"tcp://{place}", silence=HASTY)
        async with asyncio.timeout(20):
            with pytest.raises(EngineGone, match="did not answer in time"):
                await heard_of(stream(engine), heard)
        await engine.close()
    assert len(heard) == len(told)


async def test_an_engine_that_goes_on_telling_may_take_longer_than_one_silence() -> None:
    news = [CHUNKED, *[chunk(b'{"stream": "x"}\n')] * 50, b"0\r\n\r\n"]
    heard: list[object] = []
    async with engine_that(lambda call: news) as (place, _):
        engine = Engine(f"tcp://{place}", silence=Silence(build_s=0.4))
        started_at = time.monotonic()
        await heard_of(STREAMS["build"](engine), heard)
        took_s = time.monotonic() - started_at
        await engine.close()
    assert heard == ["x"] * 50
    assert took_s > 0.4


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
async def test_an_engine_that_was_given_up_is_asked_for_nothing_more(stream: Streaming) -> None:
    async with engine_that(lambda call: [answer(200, b"")]) as (place, asked):
        engine = Engine(f"tcp://{place}")
        await heard_of(stream(engine), [])
        before = list(asked)
        engine.is_given_up = True
        with pytest.raises(EngineGone, match="was given up"):
            await heard_of(stream(engine), [])
        with pytest.raises(EngineGone, match="was given up"):
            await engine.attach("c")
        await engine.close()
    assert asked == before


@pytest.mark.parametrize("image", ["python:3.12", "ann/tool", "reg.example/tool:1"])
async def test_an_image_is_pulled_with_the_login_of_its_registry(image: str, tmp_path: Path) -> None:
    login = {"auth": base64.b64encode(b"ann:secret").decode()}
    (tmp_path / "config.json").write_text(json.dumps({"auths": {HUB: login, "reg.example": login}}))
    heads: list[str] = []
    async with engine_that(lambda call: [answer(200, b"")], heads=heads) as (place, _):
        engine = Engine(f"tcp://{place}")
        await heard_of(engine.pull(image), [])
        await engine.close()
    (sent,) = [line.partition(": ")[2] for line in heads[-1].splitlines() if line.startswith("X-Registry")]
    assert json.loads(base64.urlsafe_b64decode(sent)) == {
        "username": "ann",
        "password": "secret",
        "serveraddress": "reg.example" if image.startswith("reg.") else HUB,
    }


@pytest.mark.parametrize(
    "version",
    [HTML, answer(200, b"[]"), answer(200, b"{}"), answer(200, b"{"), answer(404, b"<html>Not here</html>")],
    ids=["html", "list", "no version", "half", "not found"],
)
async def test_a_server_that_is_no_engine_is_told_as_one(version: bytes) -> None:
    async with engine_that(lambda call: [], version=version) as (place, _):
        engine = Engine(f"tcp://{place}")
        with pytest.raises(EngineGone, match=r"tcp://.* does not answer as a Docker engine .*DOCKER_HOST"):
            await engine.facts()
        with pytest.raises(EngineGone, match=r"removing a container: .* does not answer as a Docker engine"):
            await engine.remove("c")
        with pytest.raises(EngineGone, match=r"attaching to a container: .*as a Docker engine"):
            await engine.attach("c")
        await engine.close()


@pytest.mark.parametrize(
    "told", [HTML, answer(200, b"{"), answer(200, b"12\n")], ids=["html", "half", "number"]
)
async def test_a_page_in_the_place_of_news_is_no_engines(told: bytes) -> None:
    async with engine_that(lambda call: [told]) as (place, _):
        engine = Engine(f"tcp://{place}")
        with pytest.raises(EngineGone, match="does not answer as a Docker engine"):
            await heard_of(engine.pull("reg.example/tool:1"), [])
        await engine.close()


@pytest.mark.parametrize(
    "told",
    [
        answer(409, b'{"message": "is paused"}')[:-5],
        b"HTTP/1.1 409 X\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 409 X\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 no\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"220 mail.example ready\r\n\r\n",
        b"HTTP/1.1 101 UPG",
    ],
    ids=["cut off", "length in words", "negative", "no status", "nothing", "another protocol", "half a head"],
)
async def test_an_answer_to_attaching_that_nobody_understands_is_a_gone_engine(told: bytes) -> None:
    async with engine_that(lambda call: [told]) as (place, _):
        engine = Engine(f"tcp://{place}")
        with pytest.raises(EngineGone, match="attaching to a container"):
            await engine.attach("c")
        await engine.close()


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
