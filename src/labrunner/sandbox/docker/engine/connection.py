"""HTTP with one engine: calls with JSON in and out, answers that come in pieces, and streams.

Rules: paths get the version of the interface that the engine speaks, asked for once. Raises CallRefused where
the engine says no; everything else that can go wrong is an `aiohttp.ClientError` or an OSError.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from labrunner.sandbox.docker.engine.address import EngineAddress
from labrunner.sandbox.docker.engine.engine_errors import CallRefused
from labrunner.sandbox.docker.engine.hijacked import HijackedStream, hijack, read_problem

Json = dict[str, Any]  # the engine's own words; taken apart in `replies`
_NO_LIMIT: Final = aiohttp.ClientTimeout(total=None)
_JSON: Final = {"Content-Type": "application/json"}
_PIECE: Final = 64 * 1024


class EngineConnection:
    """Connections to one engine, made as they are needed."""

    def __init__(self, address: EngineAddress) -> None:
        """Connect to nobody yet; a loop must be running."""
        self._address = address
        # Every call has its own time limit, set by whoever makes it.
        self._session = aiohttp.ClientSession(connector=address.make_connector(), timeout=_NO_LIMIT)
        self._version = ""

    async def close(self) -> None:
        """Let go of every connection."""
        await self._session.close()

    async def ask(self, method: str, path: str, body: Json | None = None) -> Any:  # noqa: ANN401 - JSON
        """Make a call; what it answers, None where that is nothing."""
        data = None if body is None else msgspec.json.encode(body)
        async with self.open(method, path, data=data) as response:
            told = await response.read()
        return msgspec.json.decode(told) if told and "json" in response.content_type else None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        *,
        data: Any = None,  # noqa: ANN401 - bytes or a file
        headers: Mapping[str, str] = _JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Make a call whose answer is read piece by piece; its end need not be read."""
        url = URL(await self._locate(path))
        async with self._session.request(method, url, data=data, headers=headers) as response:
            try:
                if response.status >= 400:
                    raise CallRefused(response.status, read_problem(await response.read()))
                yield response
            finally:
                response.close()

    async def lines(
        self,
        method: str,
        path: str,
        *,
        data: Any = None,  # noqa: ANN401 - bytes or a file
        headers: Mapping[str, str] = _JSON,
    ) -> AsyncGenerator[Json, None]:
        """What a call tells on the way, line by line. Raises CallRefused where one says what went wrong."""
        async with self.open(method, path, data=data, headers=headers) as response:
            async for line in _split(response.content):
                yield _read_line(line)

    async def hijack(self, path: str, body: bytes = b"") -> HijackedStream:
        """Make a call whose connection then carries a container's streams."""
        return await hijack(self._address, URL(await self._locate(path)).raw_path_qs, body)

    async def _locate(self, path: str) -> str:
        if not self._version:
            async with self._session.get(f"{self._address.base}/version") as response:
                told = await response.read()
                if response.status >= 400:
                    raise CallRefused(response.status, read_problem(told))
            self._version = "v" + str(msgspec.json.decode(told)["ApiVersion"])
        return f"{self._address.base}/{self._version}/{path}"


async def _split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length, empty ones left out."""
    left = b""
    async for piece in content.iter_chunked(_PIECE):
        *whole, left = (left + piece).split(b"\n")
        for line in filter(bytes.strip, whole):
            yield line
    if left.strip():
        yield left


def _read_line(line: bytes) -> Json:
    news: Json = msgspec.json.decode(line)
    detail = news.get("errorDetail")
    problem = detail.get("message") if isinstance(detail, dict) else None
    if problem or "error" in news:
        raise CallRefused(0, str(problem or news["error"]))
    return news
