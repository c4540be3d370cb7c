"""Messages over a socket: a length, then JSON."""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from labrunner.gateway.process.control import Message

_LARGEST: Final = 1 << 26
_decoder: Final[msgspec.json.Decoder[Message]] = msgspec.json.Decoder(Message)
_encode: Final = msgspec.json.Encoder().encode


class ChannelClosed(Exception):
    """The other side is gone, or speaks something else."""


class Channel:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take over a connection."""
        self._reader = reader
        self._writer = writer

    def send(self, message: Message) -> None:
        """Send; what the other side does not read is kept in memory. Who is gone is noticed by `receive`."""
        data = _encode(message)
        self._writer.write(len(data).to_bytes(4, "big") + data)

    async def receive(self) -> Message:
        """The next message. Raises ChannelClosed."""
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            if size > _LARGEST:
                raise ChannelClosed(f"a message of {size} bytes")
            return _decoder.decode(await self._reader.readexactly(size))
        except (OSError, EOFError) as error:
            raise ChannelClosed("the connection is gone") from error
        except msgspec.DecodeError as error:
            raise ChannelClosed(f"a message that can't be read: {error}") from error

    async def close(self) -> None:
        """Let go; what was sent still goes out."""
        self._writer.close()
        # Who is cancelled while waiting would cancel what all wait for.
        await asyncio.shield(asyncio.ensure_future(self._wait_closed()))

    async def _wait_closed(self) -> None:
        with suppress(OSError):
            await self._writer.wait_closed()
