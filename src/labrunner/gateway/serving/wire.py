"""One client's connection: requests in, answers out, by h11.

Rules: head and body are bounded in size and in time, so that a client that sends slowly or without end
costs little. What a client does not read holds us only for a while. Raises ClientGone wherever the client
left.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

import h11

from labrunner.gateway.serving.headers import Headers, find

MAX_HEAD: Final = 64 << 10
MAX_BODY: Final = 64 << 20
_CHUNK: Final = 64 << 10


class ClientGone(Exception):
    """The client closed its connection, or stopped to read or to write."""


class BadRequest(Exception):
    """A request that can't be read, with the status that says so."""

    def __init__(self, status: int, message: str) -> None:
        """Say what is wrong with it."""
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPatience:
    """How long a client is waited for, in seconds."""

    idle_s: float = 300.0
    """For the next request of a connection."""
    head_s: float = 30.0
    body_s: float = 120.0
    """For the whole body."""
    reading_s: float = 300.0
    """For a client that does not take what it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What comes before a body."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Headers

    @property
    def is_upgrade(self) -> bool:
        """Whether the client wants to speak another protocol."""
        return bool(find(self.headers, "upgrade")) or self.method == "CONNECT"


class Wire:
    """Speaks HTTP/1.1 with one client."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: ClientPatience
    ) -> None:
        """Take over a connection."""
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._conn = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._is_head_method = False
        self.has_answered = False
        """Whether the head of an answer to the present request was sent."""

    async def read_head(self) -> RequestHead:
        """The next request, up to its body. Raises ClientGone, BadRequest."""
        if self._conn.their_state is h11.DONE:
            self._conn.start_next_cycle()
        self.has_answered = False
        try:
            if self._conn.trailing_data[0] == b"":
                await self._fill(self._patience.idle_s)
            async with asyncio.timeout(self._patience.head_s):
                event = await self._next()
        except TimeoutError as error:
            raise ClientGone from error
        if not isinstance(event, h11.Request):
            raise ClientGone
        return self._understand(event)

    async def _fill(self, seconds: float | None = None) -> None:
        async with asyncio.timeout(seconds):
            try:
                data = await self._reader.read(_CHUNK)
            except OSError as error:
                raise ClientGone from error
        if not data:
            raise ClientGone
        self._conn.receive_data(data)

    def _understand(self, request: h11.Request) -> RequestHead:
        self._is_head_method = request.method == b"HEAD"
        target = request.target.decode("ascii", "replace")
        path, _, query = target.partition("?")
        if not path.startswith("/"):
            raise BadRequest(400, "only paths are served here, no whole addresses: this is not a proxy")
        return RequestHead(
            method=request.method.decode("ascii", "replace"),
            path=path,
            query=tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=100)),
            headers=[(name.decode("ascii"), value.decode("latin-1")) for name, value in request.headers],
        )

    async def read_body(self) -> bytes:
        """The body of the request whose head was read. Raises ClientGone, BadRequest."""
        if self._conn.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        try:
            async with asyncio.timeout(self._patience.body_s):
                return await self._collect()
        except TimeoutError as error:
            raise ClientGone from error

    async def _collect(self) -> bytes:
        body = bytearray()
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            body += event.data if isinstance(event, h11.Data) else b""
            if len(body) > MAX_BODY:
                raise BadRequest(413, f"the request's body is larger than {MAX_BODY >> 20} MiB")
        return bytes(body)

    async def _next(self) -> object:
        while True:
            try:
                event = self._conn.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(error.error_status_hint, f"this is not HTTP: {error}") from error
            if event is not h11.NEED_DATA:
                return event
            await self._fill()

    async def watch(self) -> None:
        """Return when the client leaves while it waits for its answer."""
        with suppress(OSError):
            data = await self._reader.read(_CHUNK)
            if data:  # the next request came early: whether it leaves is found out when it is written to
                self._conn.receive_data(data)
                await asyncio.get_running_loop().create_future()

    async def send_head(self, status: int, headers: Headers) -> None:
        """Begin an answer. Raises ClientGone."""
        self.has_answered = True
        pairs = [(name.encode("ascii"), value.encode("latin-1", "replace")) for name, value in headers]
        await self._send(h11.Response(status_code=status, headers=pairs))

    async def send_data(self, data: bytes) -> None:
        """Go on with an answer. Raises ClientGone."""
        if data and not self._is_head_method:
            await self._send(h11.Data(data=data))

    async def end(self) -> None:
        """End an answer. Raises ClientGone."""
        await self._send(h11.EndOfMessage())

    async def send_whole(self, status: int, body: bytes, *, closes: bool = False) -> None:
        """Send an answer of our own. Raises ClientGone."""
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        await self.send_head(status, [*headers, *([("connection", "close")] if closes else [])])
        await self.send_data(body)
        await self.end()

    @property
    def is_reusable(self) -> bool:
        """Whether another request may come over this connection."""
        return self._conn.our_state is h11.DONE and self._conn.their_state is h11.DONE

    async def _send(self, event: h11.Event) -> None:
        try:
            self._writer.write(self._conn.send(event) or b"")
            async with asyncio.timeout(self._patience.reading_s):
                await self._writer.drain()
        except (OSError, TimeoutError) as error:
            raise ClientGone from error

    async def close(self, *, is_cut: bool = False) -> None:
        """Close; cut is an answer that must not look whole."""
        if is_cut:
            self._writer.transport.abort()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
