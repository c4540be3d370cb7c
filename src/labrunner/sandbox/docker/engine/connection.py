"""HTTP with one engine: calls with JSON in and out, answers that come in pieces, and streams.

Rules: paths get the version of the interface that the engine speaks, asked for once. Raises CallRefused where
the engine says no; everything else that can go wrong is an `aiohttp.ClientError` or an OSError, also where
what answers is no engine at all (ForeignAnswer).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from labrunner.sandbox.docker.engine.address import EngineAddress
from labrunner.sandbox.docker.engine.engine_errors import CallRefused, ForeignAnswer
from labrunner.sandbox.docker.engine.hijacked import HijackedStream, hijack, read_problem

Json = dict[str, Any]  # the engine's own words; taken apart in `replies`
_NO_LIMIT: Final = aiohttp.ClientTimeout(total=None)
_JSON: Final = {"Content-Type": "application/json"}
_PLAIN: Final = {"Accept-Encoding": "identity"}
"""An engine that may compress an archive spends many times longer on that than on reading it."""
_PIECE: Final = 64 * 1024
_NOT_FOUND: Final = 404
_SHOWN: Final = 80
"""How many bytes are shown of an answer that nobody understands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """How long an answer that comes in pieces may stop."""

    pull_s: float = 600.0
    """A slow disk takes its time over a large layer."""
    build_s: float = 1800.0
    """A step tells only what its command writes, and nothing while files are sent."""
    archive_s: float = 60.0


class EngineConnection:
    """Connections to one engine, made as they are needed."""

    def __init__(self, address: EngineAddress) -> None:
        """Connect to nobody yet; a loop must be running."""
        self._address = address
        # Every call has its own time limit, set by whoever makes it.
        self._session = aiohttp.ClientSession(
            connector=address.make_connector(), timeout=_NO_LIMIT, headers=_PLAIN
        )
        self._version = ""

    async def close(self) -> None:
        """Let go of every connection."""
        await self._session.close()

    async def ask(self, method: str, path: str, body: Json | None = None) -> Any:  # noqa: ANN401 - JSON
        """Make a call; what it answers, None where that is nothing."""
        data = None if body is None else msgspec.json.encode(body)
        async with self.open(method, path, data=data) as response:
            told = await response.read()
        if told and "json" not in response.content_type:
            raise self._foreign(told)
        return self._decode(told) if told else None

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
        async with aclosing(self.pieces(method, path, data=data, headers=headers)) as pieces:
            async for line in _split(pieces):
                news = self._decode(line)
                if not isinstance(news, dict):
                    raise self._foreign(line)
                _look_for_problem(news)
                yield news

    async def pieces(
        self,
        method: str,
        path: str,
        *,
        data: Any = None,  # noqa: ANN401 - bytes or a file
        headers: Mapping[str, str] = _JSON,
    ) -> AsyncGenerator[bytes, None]:
        """What a call answers, as it comes."""
        async with self.open(method, path, data=data, headers=headers) as response:
            async for piece in response.content.iter_chunked(_PIECE):
                yield piece

    async def hijack(self, path: str, body: bytes = b"") -> HijackedStream:
        """Make a call whose connection then carries a container's streams."""
        return await hijack(self._address, URL(await self._locate(path)).raw_path_qs, body)

    async def _locate(self, path: str) -> str:
        if not self._version:
            async with self._session.get(f"{self._address.base}/version") as response:
                told = await response.read()
                if response.status == _NOT_FOUND:  # every engine knows its version
                    raise self._foreign(told)
                if response.status >= 400:
                    raise CallRefused(response.status, read_problem(told))
            facts = self._decode(told)
            if not isinstance(facts, dict) or not isinstance(facts.get("ApiVersion"), str):
                raise self._foreign(told)
            self._version = "v" + facts["ApiVersion"]
        return f"{self._address.base}/{self._version}/{path}"

    def _decode(self, told: bytes) -> Any:  # noqa: ANN401 - JSON
        try:
            return msgspec.json.decode(told)
        except ValueError as error:
            raise self._foreign(told) from error

    def _foreign(self, told: bytes) -> ForeignAnswer:
        shown = told[:_SHOWN].decode(errors="replace")
        return ForeignAnswer(
            f"{self._address.told} does not answer as a Docker engine does: {shown!r}; look at DOCKER_HOST"
        )


async def _split(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Lines of any length, empty ones left out."""
    left = b""
    async for piece in pieces:
        *whole, left = (left + piece).split(b"\n")
        for line in filter(bytes.strip, whole):
            yield line
    if left.strip():
        yield left


def _look_for_problem(news: Json) -> None:
    detail = news.get("errorDetail")
    problem = detail.get("message") if isinstance(detail, dict) else None
    if problem or "error" in news:
        raise CallRefused(0, str(problem or news["error"]))
