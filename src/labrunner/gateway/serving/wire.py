"""One client's connection: requests in, answers out, by h11.

Rules: head and body are bounded in size and in time, so that a client that sends slowly or without end
costs little. What a client does not read holds us only for a while. Raises ClientGone wherever the client
left.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

import h11

from labrunner.gateway.cut import cut
from labrunner.gateway.serving.headers import Headers, find

MAX_HEAD: Final = 64 << 10
MAX_BODY: Final = 64 << 20
_CHUNK: Final = 64 << 10
_MAX_FIELDS: Final = 100
_PARTING_S: Final = 2.0


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
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        patience: ClientPatience,
        first: bytes = b"",
    ) -> None:
        """Take over a connection, of which something may have been read."""
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._conn = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        if first:
            self._conn.receive_data(first)
        self._is_head_method = False
        self.has_answered = False
        """Whether the head of an answer to the present request was sent."""

    async def read_head(self) -> RequestHead:
        """The next request, up to its body. Raises ClientGone, BadRequest."""
        return _understand(await self.read_request())

    async def read_request(self) -> h11.Request:
        """The same, as it came. Raises ClientGone, BadRequest."""
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
        if not event.http_version.startswith(b"1."):
            raise BadRequest(505, "only HTTP/1.1 is spoken here")
        self._is_head_method = event.method == b"HEAD"
        return event

    async def _fill(self, seconds: float | None = None) -> None:
        async with asyncio.timeout(seconds):
            try:
                data = await self._reader.read(_CHUNK)
            except OSError as error:
                raise ClientGone from error
        if not data:
            raise ClientGone
        self._conn.receive_data(data)

    async def read_body(self, take: Callable[[int], None] = lambda _: None) -> bytes:
        """The body of the request whose head was read; `take` hears of its bytes.

        Raises ClientGone, BadRequest.
        """
        await self.invite_body()
        try:
            async with asyncio.timeout(self._patience.body_s):
                return await self._collect(take)
        except TimeoutError as error:
            raise ClientGone from error

    async def invite_body(self) -> None:
        """Tell a client that waits for it to send its body. Raises ClientGone."""
        if self._conn.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))

    async def read_piece(self) -> bytes | None:
        """The next bytes of a body; None at its end. Raises ClientGone, BadRequest."""
        event = await self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def forgo_body(self) -> bool:
        """Let go of what came of a body; True if the request is over, and another may come."""
        try:
            while isinstance(event := self._conn.next_event(), h11.Data):
                pass
        except h11.RemoteProtocolError:
            return False
        return event is h11.PAUSED or isinstance(event, h11.EndOfMessage)

    async def _collect(self, take: Callable[[int], None]) -> bytes:
        body = bytearray()
        while (piece := await self.read_piece()) is not None:
            take(len(piece))
            body += piece
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

    async def give_over(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Say yes to a tunnel, and leave the connection to who asks; with what came already."""
        self.has_answered = True
        await self._send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
        return self._reader, self._writer, self._conn.trailing_data[0]

    @property
    def is_reusable(self) -> bool:
        """Whether another request may come over this connection."""
        return self._conn.our_state is h11.DONE and self._conn.their_state is h11.DONE

    async def _send(self, event: h11.Event) -> None:
        try:
            self._writer.write(self._conn.send(event) or b"")
            # What the kernel took at once, as it does with most of a stream, needs no waiting.
            if self._writer.transport.get_write_buffer_size() or self._writer.is_closing():
                async with asyncio.timeout(self._patience.reading_s):
                    await self._writer.drain()
        except (OSError, TimeoutError) as error:
            raise ClientGone from error

    async def close(self, *, is_cut: bool = False) -> None:
        """Close; cut is an answer that must not look whole."""
        try:
            if is_cut and self._is_as_long_as_it_lives:
                cut(self._writer)
            elif is_cut:
                self._writer.transport.abort()
            else:
                await self._see_off()
        finally:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    @property
    def _is_as_long_as_it_lives(self) -> bool:
        """Whether an answer is under way that has no other end than that of its connection."""
        version = self._conn.their_http_version
        return self._conn.our_state is h11.SEND_BODY and version is not None and version < b"1.1"

    async def _see_off(self) -> None:
        """Let a client read our last words while it still speaks: closed at once, it would lose them."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PARTING_S):
                self._writer.write_eof()
                while await self._reader.read(_CHUNK):
                    pass


def _understand(request: h11.Request) -> RequestHead:
    target = request.target.decode("ascii", "replace")
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise BadRequest(400, "only paths are served here, no whole addresses: this is not a proxy")
    try:
        fields = tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise BadRequest(400, f"the query has more than {_MAX_FIELDS} fields") from error
    return RequestHead(
        method=request.method.decode("ascii", "replace"),
        path=path,
        query=fields,
        headers=read_headers(request.headers),
    )


def read_headers(given: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers as text, their names in lower case."""
    return [(name.decode("ascii"), value.decode("latin-1")) for name, value in given]
