"""The Docker engine, as far as attempts need it: typed answers, and errors that say whose fault they are.

Rules: over the engine's socket, never through its command line. Every call ends in time.
"""

import asyncio
import logging
import os
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import aiodocker
import aiohttp
from aiodocker.jsonstream import json_stream_stream
from aiodocker.stream import Stream
from yarl import URL

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine import hostview
from labrunner.sandbox.docker.engine.attachment import Attachment
from labrunner.sandbox.docker.engine.engine_errors import EngineGone, EngineRefused, blamed
from labrunner.sandbox.docker.engine.logins import find_login
from labrunner.sandbox.docker.engine.replies import (
    ContainerState,
    EngineFacts,
    ImageFacts,
    Listed,
    Process,
    PullNews,
    join_frames,
)

CALL_S: Final = 60.0
SLOW_CALL_S: Final = 300.0
"""Starting and removing, on a machine that is busy with many."""
FAREWELL_S: Final = 10.0
"""How long somebody who wants to leave waits for an engine that does not answer."""
LONGEST_FAREWELL_S: Final = 120.0
"""The same for one that answers, but not what it was asked."""
SIGN_OF_LIFE_S: Final = 3.0
UNIX: Final = "unix://"
DEFAULT_SOCKET: Final = Path("/var/run/docker.sock")

_log = logging.getLogger("labrunner.docker")

Json = dict[str, Any]  # the engine's own words; taken apart in `answers`


class Engine:
    """One engine; connected at the first call."""

    def __init__(self, url: str | None = None) -> None:
        """Take the engine's address; by default that of DOCKER_HOST, else the usual ones."""
        self._url = url or os.environ.get("DOCKER_HOST")
        self._docker: aiodocker.Docker | None = None
        self._connector: aiohttp.BaseConnector | None = None
        self._answered_at = time.monotonic()
        self.is_given_up = False
        """It has been silent for so long that somebody left without it: it is asked for nothing more."""

    async def has_left(
        self, since: float, *, farewell_s: float = FAREWELL_S, longest_s: float = LONGEST_FAREWELL_S
    ) -> bool:
        """Whether it has been silent for too long for somebody who wants to leave since then.

        One that is only slow says that it is there, and is waited for a while longer.
        """
        if self.is_given_up or time.monotonic() - max(since, self._answered_at) <= farewell_s:
            return self.is_given_up
        if time.monotonic() - since < longest_s and await self._is_there():
            return False
        if not self.is_given_up:
            self.is_given_up = True
            _log.warning(
                "the Docker engine has not answered for %.0f s, left without it: containers may go on; "
                "to go on with them: lab continue; to give them up: lab clean --abandon RUN",
                time.monotonic() - max(since, self._answered_at),
            )
        return True

    async def _is_there(self) -> bool:
        try:
            await self._ask("GET", "version", "asking for a sign of life", timeout_s=SIGN_OF_LIFE_S)
        except SandboxFailed:
            return False
        return True

    async def close(self) -> None:
        """Let go of every connection."""
        if self._docker is not None:
            await self._docker.close()
        if self._connector is not None:
            await self._connector.close()
        self._docker = self._connector = None
        self.is_given_up = False

    async def facts(self) -> EngineFacts:
        """What the engine is and can do."""
        return EngineFacts.of(await self._get("info", "asking what it can do"))

    async def create(self, config: Json, name: str) -> str:
        """Make a container, which does not run yet; one of this name is the one that we mean."""
        path = f"containers/create?name={quote(name)}"
        try:
            answer: Json = await self._post(path, f"creating container {name}", config)
        except EngineRefused as refusal:
            if refusal.status != 409:
                raise
            answer = await self._get(f"containers/{quote(name)}/json", f"looking for container {name}")
        return str(answer["Id"])

    async def start(self, container: str) -> None:
        """Start a container."""
        await self._post(f"containers/{container}/start", "starting a container", timeout_s=SLOW_CALL_S)

    async def look(self, container: str) -> ContainerState:
        """How a container is."""
        return ContainerState.of(await self._get(f"containers/{container}/json", "looking at a container"))

    async def layer_size(self, container: str) -> int:
        """How many bytes a container holds outside its mounts, beside its image."""
        path = f"containers/{container}/json?size=true"
        answer = await self._ask("GET", path, "measuring a container", timeout_s=SLOW_CALL_S)
        return int(answer.get("SizeRw") or 0)

    async def wait(self, container: str) -> None:
        """Wait until a container has ended."""
        await self._post(f"containers/{container}/wait", "waiting for a container", timeout_s=SLOW_CALL_S)

    async def kill(self, container: str) -> None:
        """End a container's first process, and so all of them; one that is not running is fine."""
        try:
            await self._post(f"containers/{container}/kill", "killing a container")
        except EngineRefused as refusal:
            if refusal.status not in {404, 409}:
                raise

    async def remove(self, container: str) -> None:
        """Remove a container, running or not; one that is gone, or on its way, is fine."""
        path = f"containers/{container}?force=true&v=true"
        try:
            await self._ask("DELETE", path, "removing a container", timeout_s=SLOW_CALL_S)
        except EngineRefused as refusal:
            if refusal.status not in {404, 409}:
                raise

    async def rename(self, container: str, name: str) -> None:
        """Give a container another name."""
        await self._post(f"containers/{container}/rename?name={quote(name)}", "renaming a container")

    async def processes(self, container: str, first: int) -> tuple[Process, ...]:
        """Every process of a running container, as its host sees them; `first` must be among them."""
        if (seen := hostview.list_processes(container, first)) is not None:
            return seen
        for selection in ("-o", "-eo"):
            path = f"containers/{container}/top?ps_args={quote(f'{selection} pid,ppid,stat,args')}"
            answer: Json = await self._get(path, "listing a container's processes")
            found = tuple(Process.of(row) for row in answer["Processes"])
            if any(process.pid == first for process in found):
                return found
        raise EngineRefused(0, "listing a container's processes", f"its first one ({first}) is not listed")

    async def changes(self, container: str) -> tuple[str, ...]:
        """Paths outside its mounts that differ from the image."""
        path, doing = f"containers/{container}/changes", "asking what changed in a container"
        answer = await self._ask("GET", path, doing, timeout_s=SLOW_CALL_S)
        return tuple(str(change["Path"]) for change in answer or ())

    async def events(self, container: str, since: float, until: float) -> tuple[str, ...]:
        """What the engine remembers to have done to a container in this time."""
        filters = quote(f'{{"container":["{container}"]}}')
        path = f"events?since={since:.9f}&until={until:.9f}&filters={filters}"
        return tuple([str(event.get("Action")) async for event in self._stream_json(path)])

    async def said(self, container: str, stream: Literal["stdout", "stderr"] = "stdout") -> bytes:
        """What a container's first process wrote, as far as the engine keeps it."""
        path = f"containers/{container}/logs?{stream}=true"
        with blamed("asking what a container said"):
            async with asyncio.timeout(CALL_S), self._query(path) as response:
                return join_frames(await response.read())

    async def connect(self, container: str, network: str) -> None:
        """Join a container to a network."""
        await self._post(
            f"networks/{network}/connect", f"joining network {network}", {"Container": container}
        )

    async def disconnect(self, container: str, network: str) -> None:
        """Take a container out of a network."""
        body = {"Container": container, "Force": True}
        await self._post(f"networks/{network}/disconnect", f"leaving network {network}", body)

    async def list(self, label: str) -> tuple[Listed, ...]:
        """All containers with a label, running or not."""
        filters = quote(f'{{"label":["{label}"]}}')
        found = await self._get(f"containers/json?all=true&filters={filters}", "listing containers")
        return tuple(Listed.of(each) for each in found)

    async def image(self, name: str) -> ImageFacts:
        """What an image is; `EngineRefused` with 404 when it is not there."""
        return ImageFacts.of(await self._get(f"images/{name}/json", f"looking for image {name}"))

    async def remove_image(self, name: str) -> None:
        """Remove an image; one that is used or gone is left alone."""
        try:
            await self._ask("DELETE", f"images/{name}", f"removing image {name}", timeout_s=SLOW_CALL_S)
        except EngineRefused as refusal:
            if refusal.status not in {404, 409}:
                raise

    async def pull(self, name: str) -> AsyncIterator[PullNews]:
        """Pull an image, logged in as the docker command is; yields what the engine tells on the way."""
        login = await asyncio.to_thread(find_login, name) if "/" in name else None
        with blamed(f"pulling image {name}"):
            async for line in self._client().images.pull(name, auth=login, stream=True):
                yield PullNews.of(line)

    async def build(
        self,
        archive: Any,  # noqa: ANN401 - a file
        tag: str,
        labels: Mapping[str, str],
    ) -> AsyncIterator[str]:
        """Build an image from a gzipped tar archive with a Dockerfile; yields its output, line by line."""
        with blamed(f"building image {tag}"):
            images = self._client().images
            # A step that fails, or is cut off, would leave its container, which nothing marks as ours.
            lines = images.build(
                fileobj=archive, encoding="gzip", tag=tag, labels=labels, forcerm=True, stream=True
            )
            async for line in lines:
                for text in str(line.get("stream") or "").splitlines():
                    yield text

    async def archive(self, container: str, path: str) -> AsyncGenerator[bytes, None]:
        """Stream a path of a container as a tar archive."""
        address = f"containers/{container}/archive?path={quote(path)}"
        with blamed(f"copying {path} out of a container"):
            async with _abandoned(self._query(address)) as response:
                async for chunk in response.content.iter_chunked(1 << 16):
                    yield chunk

    async def call(self, container: str, config: Json) -> Stream:
        """Start a command in a running container, and give its output as a stream."""
        answer: Json = await self._post(f"containers/{container}/exec", "preparing a call", config)

        async def where() -> Any:  # noqa: ANN401 - the library's own shape
            return URL(f"exec/{answer['Id']}/start"), b'{"Detach": false, "Tty": false}', False

        stream = Stream(self._client(), where)
        with blamed("starting a call"):
            async with asyncio.timeout(CALL_S):
                await stream.__aenter__()  # starts it now, not at the first byte
        return stream

    async def attach(self, container: str) -> Attachment:
        """Take hold of a container's standard streams, before it is started or while it runs."""

        async def where() -> Any:  # noqa: ANN401 - the library's own shape
            query = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1", "logs": "0", "detachKeys": ""}
            return URL(f"containers/{container}/attach").with_query(query), None, False

        stream = Stream(self._client(), where)
        with blamed("attaching to a container"):
            async with asyncio.timeout(CALL_S):
                await stream.__aenter__()  # connects now, not at the first byte
        return Attachment(stream)

    async def _get(self, path: str, doing: str) -> Any:  # noqa: ANN401 - JSON
        return await self._ask("GET", path, doing)

    async def _post(self, path: str, doing: str, body: Json | None = None, timeout_s: float = CALL_S) -> Any:  # noqa: ANN401
        return await self._ask("POST", path, doing, body=body, timeout_s=timeout_s)

    async def _ask(
        self, method: str, path: str, doing: str, *, body: Json | None = None, timeout_s: float = CALL_S
    ) -> Any:  # noqa: ANN401 - JSON
        if self.is_given_up:
            raise EngineGone("engine_gone", f"{doing}: the engine does not answer, and was given up")
        try:
            with blamed(doing):
                async with asyncio.timeout(timeout_s):
                    answer = await self._client()._query_json(path, method, data=body)  # noqa: SLF001 - see `_query`
        except EngineRefused:
            self._answered_at = time.monotonic()
            raise
        self._answered_at = time.monotonic()
        return answer

    async def _stream_json(self, path: str) -> AsyncIterator[Json]:
        with blamed("asking for events"):
            async with asyncio.timeout(CALL_S), self._query(path) as response:
                async for item in json_stream_stream(response):
                    yield item

    def _query(self, path: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._client()._query(path)  # noqa: SLF001 - the library has no public call for this

    def _client(self) -> aiodocker.Docker:
        if self._docker is None:
            self._docker = self._connect()
        return self._docker

    def _connect(self) -> aiodocker.Docker:
        url = self._url or (f"unix://{DEFAULT_SOCKET}" if _is_socket(DEFAULT_SOCKET) else None)
        if url is not None and url.startswith(UNIX):
            socket = Path(url.removeprefix(UNIX))
            if not _is_socket(socket):
                raise EngineGone("engine_gone", f"no Docker engine: {socket} is no socket")
            # Each attempt holds a connection for its streams: no bound. None is used twice: an engine that
            # was restarted would refuse the first call on each old one.
            self._connector = aiohttp.UnixConnector(str(socket), limit=0, force_close=True)
            return aiodocker.Docker("unix://localhost", connector=self._connector)
        try:
            if url is not None:
                _check_address(url)
            return aiodocker.Docker(url)
        except (AssertionError, ValueError, ImportError) as error:
            # The library finds no address, does not understand it, or has no means for it.
            problem = f"DOCKER_HOST is not set and there is no {DEFAULT_SOCKET}"
            if url is not None:
                problem = f"DOCKER_HOST is {url!r}: {error}"
            raise EngineGone("engine_gone", f"no Docker engine: {problem}") from error


@asynccontextmanager
async def _abandoned(
    query: AbstractAsyncContextManager[aiohttp.ClientResponse],
) -> AsyncIterator[aiohttp.ClientResponse]:
    """An answer of which nobody need read the end."""
    async with query as response:
        try:
            yield response
        finally:
            response.close()


def _check_address(url: str) -> None:
    """Raise ValueError for what is no address: the library would notice only when it connects."""
    if URL(url).port == 0:
        raise ValueError("port 0 is no port")
    if URL(url).scheme == "npipe":
        raise ValueError("named pipes are for Windows; write unix:///path/of/socket or tcp://host:port")


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
