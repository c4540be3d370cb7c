"""What an image holds before anything has run in it, read from a container that is never started."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import Tag
from labrunner.sandbox.docker.engine.reconnect import outlast
from labrunner.sandbox.docker.watching.contents import Contents, take_prints


class Pristine:
    """Images as they are, each read once."""

    def __init__(self, engine: Engine) -> None:
        """Have read nothing yet."""
        self._engine = engine
        self._prints: dict[str, Contents] = {}
        self.rest()

    def rest(self) -> None:
        """Let go of the event loop."""
        self._lock = asyncio.Lock()

    async def prints(self, image: str, is_wanted: Callable[[str], bool]) -> Contents:
        """Prints of everything in an image, by its digest; of it what is wanted."""
        async with self._lock:
            if image not in self._prints:
                async with unstarted(self._engine, image) as container:
                    archive = self._engine.archive(container, "/")
                    self._prints[image] = await take_prints(archive, "/", lambda _: True)
        return {path: made for path, made in self._prints[image].items() if is_wanted(path)}


@asynccontextmanager
async def unstarted(engine: Engine, image: str) -> AsyncIterator[str]:
    """A container that is never started, and then gone; one that a killed process leaves is a probe's."""
    tag = Tag(mark=None, nonce=secrets.token_hex(16), role="attempt", expires_at=int(time.time()), expiry_s=0)
    config = {
        "Image": image,
        "Entrypoint": ["/bin/sh"],
        "NetworkDisabled": True,
        "HostConfig": {"NetworkMode": "none"},
        "Labels": tag.labels(),
    }
    container = await outlast(lambda: engine.create(config, tag.name()))
    try:
        yield container
    finally:
        await engine.remove(container)
