"""A provider and a client for `bench gateway`: as little of each as HTTP allows.

The provider is a process of its own (`python -m bench.talker`). Each piece of a stream carries the moment
when it was sent; the clock is the same for all processes of a machine.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

USAGE: Final = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
WHOLE: Final = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
        ],
        "usage": USAGE,
    }
).encode()
HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: "


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection."""
    while head := await _read_head(reader):
        body = json.loads(await reader.readexactly(int(head["content-length"])))
        if body.get("stream"):
            await _stream(writer, int(body["seed"]), body.get("user", "0"))
        else:
            length = str(len(WHOLE)).encode()
            writer.write(HEAD + b"application/json\r\ncontent-length: " + length + b"\r\n\r\n" + WHOLE)
        await writer.drain()


async def _read_head(reader: asyncio.StreamReader) -> dict[str, str]:
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
    except (asyncio.IncompleteReadError, ConnectionError):
        return {}
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in text)}


async def _stream(writer: asyncio.StreamWriter, pieces: int, pause_ms: str) -> None:
    writer.write(HEAD + b"text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(pieces):
        await asyncio.sleep(float(pause_ms) / 1000)
        _send(writer, {"choices": [{"index": 0, "delta": {"content": f"@{time.monotonic_ns()}@"}}]})
    _send(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    _send(writer, {"choices": [], "usage": USAGE})
    _write_piece(writer, b"data: [DONE]\n\n")
    _write_piece(writer, b"")


def _send(writer: asyncio.StreamWriter, value: dict[str, object]) -> None:
    _write_piece(writer, b"data: " + json.dumps({"id": "c", "model": "m", **value}).encode() + b"\n\n")


def _write_piece(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


@contextmanager
def run_provider() -> Iterator[int]:
    """The provider, in a process of its own; its port."""
    with subprocess.Popen([sys.executable, "-m", "bench.talker"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class Client:
    """One connection that is kept."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    path: str
    token: str

    async def ask(self, said: str) -> float:
        """Ask for a whole answer; the seconds that it took."""
        started = time.monotonic()
        self._send({"messages": [{"role": "user", "content": said}]})
        head = await _read_head(self.reader)
        if "content-length" in head:
            await self.reader.readexactly(int(head["content-length"]))
        else:
            await self._read_pieces([])
        return time.monotonic() - started

    async def hear(self, pieces: int, pause_ms: float) -> list[float]:
        """Hear a stream; how long each piece was on its way, in seconds."""
        self._send({"messages": [], "stream": True, "seed": pieces, "user": str(pause_ms)})
        await _read_head(self.reader)
        late: list[float] = []
        await self._read_pieces(late)
        return late

    async def _read_pieces(self, late: list[float]) -> None:
        while size := int((await self.reader.readline()).strip(), 16):
            piece = (await self.reader.readexactly(size + 2))[:-2]
            now = time.monotonic_ns()
            late += [(now - int(stamp)) / 1e9 for stamp in piece.split(b"@")[1::2]]
        await self.reader.readline()

    def _send(self, asked: dict[str, object]) -> None:
        body = json.dumps({"model": "m", "max_tokens": 5, **asked}).encode()
        head = f"POST {self.path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {self.token}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)


@asynccontextmanager
async def connect(port: int, path: str, token: str = "t") -> AsyncIterator[Client]:
    """A client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer, path, token)
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
