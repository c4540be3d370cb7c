"""Requests of one visitor over one connection, each answered, tunnelled or refused.

Rule: a refusal is on disk before the client knows of it.
"""

from typing import Final

import h11

from labrunner.gateway.hosts.destination import Destination, parse_absolute, parse_authority, parse_path
from labrunner.gateway.hosts.forwarding import forward
from labrunner.gateway.hosts.outside import find_line, reach
from labrunner.gateway.hosts.passage import Passage, Turned
from labrunner.gateway.hosts.tunnel import Inside, Tunnel
from labrunner.gateway.hosts.visitor import HostService, Visitor
from labrunner.gateway.serving.headers import Headers
from labrunner.gateway.serving.wire import BadRequest, ClientGone, Wire

_BROKEN: Final = frozenset({"cut", "timeout", "bad_answer"})
"""After these nothing may look whole."""


class ProxySession:
    """Serves one visitor over one connection."""

    def __init__(
        self, wire: Wire, visitor: Visitor, service: HostService, base: Destination | None = None
    ) -> None:
        """Speak with a visitor; inside a tunnel, where only paths are asked for, with its base."""
        self._wire = wire
        self._guest = visitor
        self._service = service
        self._base = base

    async def read(self) -> h11.Request | None:
        """The next request; None after one that can't be read. Raises ClientGone, StoreError."""
        try:
            return await self._wire.read_request()
        except BadRequest as error:
            await self.turn(Passage(visitor=self._guest), Turned("bad_request", error.status, str(error)))
            return None

    async def answer(self, request: h11.Request) -> None:
        """Do what a request asks for, or say why not. Raises ClientGone, StoreError."""
        try:
            target = _read_target(request, self._base)
        except Turned as turned:
            await self.turn(Passage(visitor=self._guest), turned)
            return
        if target.way == "tunnel" and _speaks_http(target, self._guest) and self._wire.forgo_body():
            await self._open_http(target)
            return
        passage = Passage(visitor=self._guest)
        passage.aim(target)
        try:
            if target.way == "http":
                await forward(self._wire, request, target, passage, self._service)
            else:
                await self._open_tunnel(target, passage)
        except Turned as turned:
            await self.turn(passage, turned)
        finally:
            await passage.close()

    async def _open_tunnel(self, target: Destination, passage: Passage) -> None:
        line = find_line(target, passage.visitor)
        if not self._wire.forgo_body():
            raise Turned("bad_request", 400, "CONNECT has no body")
        async with reach(target, passage, self._service) as outside:
            reader, writer, first = await self._wire.give_over()
            tunnel = Tunnel(target, line, passage, self._service)
            await tunnel.carry(Inside(reader=reader, writer=writer, first=first), outside)

    async def _open_http(self, target: Destination) -> None:
        """Some clients ask for a tunnel to plain http, too: what is asked inside is read all the same."""
        reader, writer, first = await self._wire.give_over()
        inner = Wire(reader, writer, self._service.client, first)
        session = ProxySession(inner, self._guest, self._service, target)
        while (request := await session.read()) is not None:
            await session.answer(request)
            if not inner.is_reusable:
                return

    async def turn(self, passage: Passage, turned: Turned) -> None:
        """Record that a connection is not made or broke off, then tell it if there is still a way."""
        passage.turned = turned
        await passage.close()
        if not self._wire.has_answered:
            await tell(self._wire, turned.status, str(turned))
        elif turned.reason in _BROKEN:
            raise ClientGone from turned


async def tell(wire: Wire, status: int, text: str, headers: Headers = ()) -> None:
    """Answer with a sentence of our own. Raises ClientGone."""
    body = f"lab gateway: {text}\n".encode()
    closing = [] if wire.forgo_body() else [("connection", "close")]
    framing = [("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))]
    await wire.send_head(status, [*headers, *framing, *closing])
    await wire.send_data(body)
    await wire.end()


def _read_target(request: h11.Request, base: Destination | None) -> Destination:
    """Where a request wants to go. Raises Turned."""
    text = request.target.decode("ascii")
    try:
        if base is not None:
            return parse_path(text, base)
        return parse_authority(text, "tunnel") if request.method == b"CONNECT" else parse_absolute(text)
    except ValueError as error:
        raise Turned("bad_request", 400, f"'{text[:253]}' can't be reached: {error}") from error


def _speaks_http(target: Destination, visitor: Visitor) -> bool:
    """Whether a tunnel leads to where only plain http is allowed."""
    if visitor.allow.find(target.host, target.port, "tunnel") is not None:
        return False
    return visitor.allow.find(target.host, target.port, "http") is not None
