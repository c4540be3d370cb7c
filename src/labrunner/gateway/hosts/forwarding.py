"""A plain request of http, sent on to its host.

Rules: what goes out is made anew from what was read, never passed on as it came: one request, one connection
outside, whose name in `Host` is the one that was checked. No redirect is followed: that is
the client's, through us. Bodies pass in pieces, either way, and are kept nowhere.
"""

import asyncio
from typing import Final

import h11

from labrunner.gateway.hosts.destination import Destination, parse_authority
from labrunner.gateway.hosts.outside import Outside, at_host, find_line, reach
from labrunner.gateway.hosts.passage import Passage, Turned
from labrunner.gateway.hosts.pulse import Pulse
from labrunner.gateway.hosts.visitor import HostService
from labrunner.gateway.serving.headers import Headers, drop_hops, find
from labrunner.gateway.serving.wire import MAX_HEAD, BadRequest, ClientGone, Wire, read_headers

_CHUNK: Final = 64 << 10
_IGNORED: Final = "h2c"
"""A protocol that clients offer by the way: they go on without it."""
_OURS: Final = frozenset({"host", "content-length", "expect", "http2-settings"})


async def forward(
    wire: Wire, request: h11.Request, target: Destination, passage: Passage, service: HostService
) -> None:
    """Answer a request. Raises Turned, ClientGone."""
    find_line(target, passage.visitor)
    head = _make_head(request, target)
    async with reach(target, passage, service) as outside:
        await _Forwarding(wire, outside, passage, service).carry(head)


def _make_head(request: h11.Request, target: Destination) -> h11.Request:
    """The request that goes out. Raises Turned."""
    headers = read_headers(request.headers)
    for name, value in headers:
        if name == "host":
            _check_host(value, target)
    length, coding = find(headers, "content-length"), find(headers, "transfer-encoding")
    if coding and (length or request.http_version < b"1.1"):
        raise Turned("bad_request", 400, "the length of the body is told in two ways")
    if (wanted := find(headers, "upgrade")) and wanted.strip().lower() != _IGNORED:
        told = f"another protocol ('{wanted[:80]}') can't be spoken over plain http here; use https"
        raise Turned("upgrade", 501, told)
    framing = [("content-length", length)] if length else []
    if coding:
        framing = [("transfer-encoding", "chunked")]
    kept = [(name, value) for name, value in drop_hops(headers) if name not in _OURS]
    return h11.Request(
        method=request.method,
        target=target.path,
        headers=_encode([("host", target.authority), *kept, *framing, ("connection", "close")]),
    )


def _check_host(given: str, target: Destination) -> None:
    try:
        is_same = parse_authority(given, "http", default=80) == _place(target)
    except ValueError:
        is_same = False
    if not is_same:
        raise Turned("other_host", 400, f"{target} was asked for, but the header Host has '{given[:253]}'")


def _place(target: Destination) -> Destination:
    return Destination(host=target.host, port=target.port, way="http")


def _encode(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]


class _Forwarding:
    """The state of one request."""

    def __init__(self, wire: Wire, outside: Outside, passage: Passage, service: HostService) -> None:
        self._wire = wire
        self._outside = outside
        self._visit = passage
        self._pulse = Pulse(service.idle_s)
        self._conn = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)

    async def carry(self, head: h11.Request) -> None:
        async with self._pulse.kept(), asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_all(head))
            try:
                await self._answer()
            except (Turned, ClientGone) as error:
                self._pulse.halt(error)
            sending.cancel()

    async def _send_all(self, head: h11.Request) -> None:
        """Pass the request on; then notice whether the client leaves."""
        try:
            await self._send(head)
            await self._wire.invite_body()
            while (piece := await self._wire.read_piece()) is not None:
                await self._send(h11.Data(data=piece))
            await self._send(h11.EndOfMessage())
            await self._wire.watch()
        except Turned:
            return  # the host may have answered before it had it all
        except BadRequest as error:
            self._pulse.halt(Turned("bad_request", error.status, str(error)))
            return
        except ClientGone as error:
            self._pulse.halt(error)
            return
        self._pulse.halt(ClientGone())

    async def _answer(self) -> None:
        response = await self._read_head()
        headers = drop_hops(read_headers(response.headers))
        if find(read_headers(response.headers), "transfer-encoding"):
            headers = [(name, value) for name, value in headers if name != "content-length"]
        await self._wire.send_head(response.status_code, headers)
        while isinstance(event := await self._next(), h11.Data):
            await self._wire.send_data(bytes(event.data))
            self._pulse.touch()
        if not isinstance(event, h11.EndOfMessage):
            raise Turned("cut", 502, "the host broke off its answer", end="failed")
        await self._wire.end()

    async def _read_head(self) -> h11.Response:
        while isinstance(event := await self._next(), h11.InformationalResponse):
            pass  # what the client waits for it was told already
        if not isinstance(event, h11.Response):
            raise Turned("bad_answer", 502, "the host closed the connection without an answer", end="failed")
        return event

    async def _next(self) -> object:
        while True:
            try:
                event = self._conn.next_event()
            except h11.RemoteProtocolError as error:
                if self._wire.has_answered:
                    raise Turned("cut", 502, f"the host broke off: {error}", end="failed") from error
                told = f"the host's answer is not HTTP: {error}"
                raise Turned("bad_answer", 502, told, end="failed") from error
            if event is not h11.NEED_DATA:
                return event
            with at_host():
                data = await self._outside.reader.read(_CHUNK)
            self._visit.received += len(data)
            self._pulse.touch()
            self._conn.receive_data(data)

    async def _send(self, event: h11.Event) -> None:
        data = self._conn.send(event) or b""
        self._visit.sent += len(data)
        with at_host():
            self._outside.writer.write(data)
            await self._outside.writer.drain()
        self._pulse.touch()
