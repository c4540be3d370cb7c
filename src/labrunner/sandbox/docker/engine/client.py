"""The Docker engine, as far as attempts need it: typed answers, and errors that say whose fault they are.

Rules: over the engine's socket, never through its command line. Every call ends in time: what comes at once
within a limit for the whole, what comes in pieces within one for the silence between them.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, BinaryIO, Final, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine import hostview
from labrunner.sandbox.docker.engine.address import find_address
from labrunner.sandbox.docker.engine.connection import EngineConnection, Json, Silence
from labrunner.sandbox.docker.engine.engine_errors import EngineGone, EngineRefused, blamed
from labrunner.sandbox.docker.engine.hijacked import Attachment, HijackedStream
from labrunner.sandbox.docker.engine.logins import compose_login, find_login, has_version
from labrunner.sandbox.docker.engine.replies import (
    PATH_STAT,
    ContainerChange,
    ContainerState,
    EngineFacts,
    ImageFacts,
    Listed,
    NetworkFacts,
    Process,
    PullNews,
    join_frames,
    read_path_stat,
)

CALL_S: Final = 60.0
SLOW_CALL_S: Final = 300.0
"""Starting and removing, on a machine that is busy with many."""
FAREWELL_S: Final = 10.0
"""How long somebody who wants to leave waits for an engine that does not answer."""
LONGEST_FAREWELL_S: Final = 120.0
"""The same for one that answers, but not what it was asked."""
SIGN_OF_LIFE_S: Final = 3.0
ASK_AGAIN_S: Final = 0.05
MOST_SAID: Final = 2000
"""How many bytes are kept of what a command said."""
_FOREGROUND: Final = b'{"Detach": false, "Tty": false}'
_STREAMS: Final = "stream=1&stdin=1&stdout=1&stderr=1&logs=0&detachKeys="
_TAR: Final = {"Content-Type": "application/x-tar", "Content-Encoding": "gzip"}

_log = logging.getLogger("labrunner.docker")

Piece = TypeVar("Piece")


class Engine:
    """One engine; connected at the first call."""

    def __init__(self, url: str | None = None, *, silence: Silence | None = None) -> None:
        """Take the engine's address; by default that of DOCKER_HOST, else the usual ones."""
        self._url = url or os.environ.get("DOCKER_HOST")
        self._silence = silence or Silence()
        self._connected: EngineConnection | None = None
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
        if self._connected is not None:
            await self._connected.close()
        self._connected = None
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

    async def changes(self, container: str) -> tuple[ContainerChange, ...]:
        """What differs from the image outside its mounts."""
        path, doing = f"containers/{container}/changes", "asking what changed in a container"
        answer = await self._ask("GET", path, doing, timeout_s=SLOW_CALL_S)
        return tuple(ContainerChange.of(change) for change in answer or ())

    async def events(self, container: str, since: float, until: float) -> tuple[str, ...]:
        """What the engine remembers to have done to a container in this time."""
        filters = quote(f'{{"container":["{container}"]}}')
        path = f"events?since={since:.9f}&until={until:.9f}&filters={filters}"
        with self._calling("asking for events"):
            async with asyncio.timeout(CALL_S), aclosing(self._connection().lines("GET", path)) as lines:
                return tuple([str(event.get("Action")) async for event in lines])

    async def said(self, container: str, stream: Literal["stdout", "stderr"] = "stdout") -> bytes:
        """What a container's first process wrote, as far as the engine keeps it."""
        path = f"containers/{container}/logs?{stream}=true"
        with self._calling("asking what a container said"):
            async with asyncio.timeout(CALL_S), self._connection().open("GET", path) as response:
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

    async def make_network(self, config: Json) -> NetworkFacts:
        """Make a network; one of this name is the one that we mean."""
        name = config["Name"]
        try:
            await self._post("networks/create", f"making network {name}", config)
        except EngineRefused as refusal:
            if refusal.status != 409:
                raise
        return NetworkFacts.of(await self._get(f"networks/{quote(name)}", f"looking at network {name}"))

    async def networks(self, label: str) -> tuple[NetworkFacts, ...]:
        """All networks with a label."""
        found = await self._get(f"networks?filters={_by_label(label)}", "listing networks")
        return tuple(NetworkFacts.of(each) for each in found)

    async def remove_network(self, network: str) -> None:
        """Remove a network; one that is gone is fine."""
        try:
            await self._ask("DELETE", f"networks/{network}", f"removing network {network[:12]}")
        except EngineRefused as refusal:
            if not refusal.is_not_found:
                raise

    async def list(self, label: str) -> tuple[Listed, ...]:
        """All containers with a label, running or not."""
        path = f"containers/json?all=true&filters={_by_label(label)}"
        return tuple(Listed.of(each) for each in await self._get(path, "listing containers"))

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
        login = await asyncio.to_thread(find_login, name)
        named = {"fromImage": name} if has_version(name) else {"fromImage": name, "tag": "latest"}
        headers = {} if login is None else {"X-Registry-Auth": compose_login(login, name)}
        news = self._connection().lines("POST", f"images/create?{urlencode(named)}", headers=headers)
        async for line in self._pieces(f"pulling image {name}", news, self._silence.pull_s):
            yield PullNews.of(line)

    async def build(self, archive: BinaryIO, tag: str, labels: Mapping[str, str]) -> AsyncIterator[str]:
        """Build an image from a gzipped tar archive with a Dockerfile; yields its output, line by line."""
        # A step that fails, or is cut off, would leave its container, which nothing marks as ours.
        asked = {"t": tag, "labels": msgspec.json.encode(labels).decode(), "rm": "1", "forcerm": "1"}
        news = self._connection().lines("POST", f"build?{urlencode(asked)}", data=archive, headers=_TAR)
        async for line in self._pieces(f"building image {tag}", news, self._silence.build_s):
            for text in str(line.get("stream") or "").splitlines():
                yield text

    async def archive(self, container: str, path: str) -> AsyncGenerator[bytes, None]:
        """Stream a path of a container as a tar archive."""
        content = self._connection().pieces("GET", f"containers/{container}/archive?path={quote(path)}")
        doing = f"copying {path} out of a container"
        async with aclosing(self._pieces(doing, content, self._silence.archive_s)) as pieces:
            async for piece in pieces:
                yield piece

    async def link_target(self, container: str, path: str) -> str | None:
        """Where a path of a container leads; empty if it is no link, None if it is not there."""
        asked = f"containers/{container}/archive?path={quote(path)}"
        try:
            with self._calling(f"looking at {path} in a container"):
                async with asyncio.timeout(CALL_S), self._connection().open("HEAD", asked) as response:
                    return read_path_stat(response.headers.get(PATH_STAT, ""))
        except EngineRefused as refusal:
            if not refusal.is_not_found:
                raise
            return None

    async def unpack(self, container: str, path: str, pieces: AsyncGenerator[bytes, None]) -> None:
        """Unpack a tar archive, which comes in pieces, in a folder of a container: owners as they are."""

        async def send(limit: asyncio.Timeout) -> AsyncGenerator[bytes, None]:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
                    limit.reschedule(asyncio.get_running_loop().time() + SLOW_CALL_S)

        asked = f"containers/{container}/archive?path={quote(path)}"
        headers = {"Content-Type": "application/x-tar"}
        with self._calling(f"unpacking an archive in {path} of a container"):
            async with (
                asyncio.timeout(SLOW_CALL_S) as limit,
                aclosing(send(limit)) as sent,
                self._connection().open("PUT", asked, data=sent, headers=headers),
            ):
                pass

    async def carry_out(self, container: str, argv: Sequence[str], limit_s: float) -> tuple[int, str]:
        """Run a command in a running container as root, to its end: exit status, and what it said."""
        config = {"AttachStdout": True, "AttachStderr": True, "Cmd": list(argv), "User": "0"}
        call = await self._prepare(container, config)
        with self._calling("running a command"):
            async with asyncio.timeout(limit_s):
                stream = await self._connection().hijack(f"exec/{call}/start", _FOREGROUND)
                said = await stream.read_last(MOST_SAID)
                # Its streams may end before it, and an engine tells of no end by itself.
                while (status := await self.call_status(call)) is None:  # noqa: ASYNC110
                    await asyncio.sleep(ASK_AGAIN_S)
        return status, said.decode(errors="replace")

    async def call(self, container: str, config: Json) -> HijackedStream:
        """Start a command in a running container, and give its output as a stream."""
        return await self._begin(await self._prepare(container, config), _FOREGROUND)

    async def open_terminal(
        self, container: str, config: Json, size: tuple[int, int]
    ) -> tuple[str, HijackedStream]:
        """Start a command at a terminal in a running container: what it is known by, and its bytes."""
        call = await self._prepare(container, config)
        asked = msgspec.json.encode({"Detach": False, "Tty": True, "ConsoleSize": size})
        return call, await self._begin(call, asked)

    async def _prepare(self, container: str, config: Json) -> str:
        answer: Json = await self._post(f"containers/{container}/exec", "preparing a call", config)
        return str(answer["Id"])

    async def _begin(self, call: str, asked: bytes) -> HijackedStream:
        with self._calling("starting a call"):
            async with asyncio.timeout(CALL_S):
                return await self._connection().hijack(f"exec/{call}/start", asked)

    async def resize_terminal(self, call: str, size: tuple[int, int]) -> None:
        """Give a command's terminal another size."""
        await self._post(f"exec/{call}/resize?h={size[0]}&w={size[1]}", "resizing a terminal")

    async def call_status(self, call: str) -> int | None:
        """With what a command in a container has ended; None while it runs."""
        answer: Json = await self._get(f"exec/{call}/json", "looking at a command in a container")
        status: int | None = None if answer.get("Running") else answer.get("ExitCode")
        return status

    async def attach(self, container: str) -> Attachment:
        """Take hold of a container's standard streams, before it is started or while it runs."""
        with self._calling("attaching to a container"):
            async with asyncio.timeout(CALL_S):
                path = f"containers/{container}/attach?{_STREAMS}"
                return Attachment(await self._connection().hijack(path))

    async def _get(self, path: str, doing: str) -> Any:  # noqa: ANN401 - JSON
        return await self._ask("GET", path, doing)

    async def _post(self, path: str, doing: str, body: Json | None = None, timeout_s: float = CALL_S) -> Any:  # noqa: ANN401
        return await self._ask("POST", path, doing, body=body, timeout_s=timeout_s)

    async def _ask(
        self, method: str, path: str, doing: str, *, body: Json | None = None, timeout_s: float = CALL_S
    ) -> Any:  # noqa: ANN401 - JSON
        with self._calling(doing):
            async with asyncio.timeout(timeout_s):
                return await self._connection().ask(method, path, body)

    async def _pieces(
        self, doing: str, pieces: AsyncGenerator[Piece, None], silence_s: float
    ) -> AsyncGenerator[Piece, None]:
        """An answer piece by piece; whoever takes their time with one is not waited for here."""
        async with aclosing(pieces):
            while (piece := await self._next(doing, pieces, silence_s)) is not None:
                yield piece

    async def _next(self, doing: str, pieces: AsyncGenerator[Piece, None], silence_s: float) -> Piece | None:
        with self._calling(doing):
            async with asyncio.timeout(silence_s):
                return await anext(pieces, None)

    @contextmanager
    def _calling(self, doing: str) -> Iterator[None]:
        """What is true of every call: an engine that was given up gets none; an answer is a sign of life."""
        if self.is_given_up:
            raise EngineGone("engine_gone", f"{doing}: the engine does not answer, and was given up")
        try:
            with blamed(doing):
                yield
        except EngineRefused:
            self._answered_at = time.monotonic()
            raise
        self._answered_at = time.monotonic()

    def _connection(self) -> EngineConnection:
        if self._connected is None:
            self._connected = EngineConnection(find_address(self._url))
        return self._connected


def _by_label(label: str) -> str:
    return quote(f'{{"label":["{label}"]}}')
