"""Hold of a container's standard streams."""

import aiohttp
from aiodocker.stream import Stream

from labrunner.sandbox.docker.blame import blamed

SAID = 2000


class Attachment:
    """A container's standard input, and hints that it has something to tell."""

    def __init__(self, stream: Stream) -> None:
        """Take a connected stream."""
        self._stream = stream
        self.said = b""
        """The end of what its first process wrote to standard error."""

    async def send(self, text: str) -> None:
        """Write to standard input."""
        with blamed("writing to a container"):
            await self._stream.write_in(text.encode(errors="surrogateescape"))

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
            self.said = (self.said + message.data)[-SAID:]

    async def close(self) -> None:
        """Let go; the container does not notice."""
        await self._stream.close()
