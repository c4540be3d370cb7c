"""Hold of a container's standard streams."""

import aiohttp
from aiodocker.stream import Stream

from labrunner.sandbox.docker.engine.engine_errors import StreamsEnded


class Attachment:
    """A container's standard input, and hints that it has something to tell."""

    def __init__(self, stream: Stream) -> None:
        """Take a connected stream."""
        self._stream = stream

    async def send(self, text: str) -> None:
        """Write to standard input; `StreamsEnded` when there is nobody to hear it."""
        try:
            await self._stream.write_in(text.encode(errors="surrogateescape"))
        except (AssertionError, aiohttp.ClientError, OSError) as error:
            # The first is the library's way to say that its connection has ended.
            raise StreamsEnded("engine_gone", f"writing to a container: {error!r}") from error

    async def hint(self) -> bool:
        """Wait for output; False when there is none to come: the container, or the engine, has ended."""
        while True:
            try:
                message = await self._stream.read_out()
            except (aiohttp.ClientError, OSError):
                return False
            if message is None:
                return False
            if message.stream == 1:
                return True

    async def close(self) -> None:
        """Let go; the container does not notice."""
        await self._stream.close()
