"""A connection to the engine that became a container's streams: bytes in, frames out.

Rule: reading may be cancelled at any moment and gone on with; no byte of a frame is lost.
"""

import asyncio
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from labrunner.sandbox.docker.engine.address import EngineAddress
from labrunner.sandbox.docker.engine.engine_errors import CallRefused, ForeignAnswer, StreamsEnded
from labrunner.sandbox.docker.engine.replies import FRAME_HEAD

_MOST_TOLD: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """Something that was written to a stream."""

    stream: int
    """1 for standard output, 2 for standard error."""
    data: bytes


@dataclass(slots=True)
class HijackedStream:
    """A container's streams."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _head: bytes = field(default=b"", init=False)

    async def read_out(self) -> Frame | None:
        """The next frame; None when there is none to come. Raises OSError."""
        try:
            if not self._head:
                self._head = await self.reader.readexactly(FRAME_HEAD.size)
            stream, size = FRAME_HEAD.unpack(self._head)
            data = await self.reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return None
        self._head = b""
        return Frame(stream, data)

    async def read_last(self, most: int) -> bytes:
        """The last bytes of what is said until the end, on either stream; then let go. Raises OSError."""
        said = b""
        with closing(self):
            while (message := await self.read_out()) is not None:
                said = (said + message.data)[-most:]
        return said

    async def write_in(self, data: bytes) -> None:
        """Write to standard input. Raises OSError when the other side has gone."""
        if self.reader.at_eof():
            raise ConnectionResetError("the connection has ended")
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        """Let go."""
        with suppress(OSError):
            if self.writer.can_write_eof():
                self.writer.write_eof()
        self.writer.close()


class Attachment:
    """A container's standard input, and hints that it has something to tell."""

    def __init__(self, stream: HijackedStream) -> None:
        """Take a connected stream."""
        self._stream = stream

    async def send(self, text: str) -> None:
        """Write to standard input; `StreamsEnded` when there is nobody to hear it."""
        try:
            await self._stream.write_in(text.encode(errors="surrogateescape"))
        except OSError as error:
            raise StreamsEnded("engine_gone", f"writing to a container: {error!r}") from error

    async def hint(self) -> bool:
        """Wait for output; False when there is none to come: the container, or the engine, has ended."""
        while True:
            try:
                message = await self._stream.read_out()
            except OSError:
                return False
            if message is None:
                return False
            if message.stream == 1:
                return True

    def close(self) -> None:
        """Let go; the container does not notice."""
        self._stream.close()


async def hijack(address: EngineAddress, path: str, body: bytes = b"") -> HijackedStream:
    """Make a call whose connection then carries streams. Raises CallRefused, OSError."""
    reader, writer = await address.open_streams()
    try:
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: {address.host}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        await _read_answer(reader, path)
    except BaseException:
        writer.close()
        raise
    return HijackedStream(reader, writer)


async def _read_answer(reader: asyncio.StreamReader, path: str) -> None:
    """Read the head of the engine's answer; what follows are the streams, unless it said no."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        status, size = _read_head(head)
        if status in {101, 200}:
            return
        told = await (reader.read(_MOST_TOLD) if size is None else reader.readexactly(min(size, _MOST_TOLD)))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ForeignAnswer(f"the engine gave no whole answer to {path}") from error
    except ValueError as error:
        raise ForeignAnswer(f"this is no answer of an engine to {path}: {error}") from error
    raise CallRefused(status, read_problem(told))


def _read_head(head: bytes) -> tuple[int, int | None]:
    """The status of an answer, and how many bytes follow, where it says so. Raises ValueError."""
    line, *fields = head.decode("latin-1").split("\r\n")
    protocol, _, rest = line.partition(" ")
    if not protocol.startswith("HTTP/1."):
        raise ValueError(f"{line[:80]!r} is not HTTP")
    split = (each.partition(":") for each in fields)
    sizes = [int(value) for name, _, value in split if name.lower() == "content-length"]
    if any(size < 0 for size in sizes):
        raise ValueError("a negative length")
    return int(rest.partition(" ")[0]), sizes[0] if sizes else None


def read_problem(told: bytes) -> str:
    """What the engine says is wrong, from the body of its answer."""
    try:
        return str(msgspec.json.decode(told, type=dict[str, str])["message"])
    except (ValueError, KeyError):
        return told.decode(errors="replace").strip()
