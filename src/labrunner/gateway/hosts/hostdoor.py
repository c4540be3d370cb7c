"""The door to hosts: an HTTP proxy on a listener of an attempt.

Rules: what is not in the list is refused. No connection brings down another one. A disk that takes no events
ends the service: a door that nobody can look at afterwards stays shut.
"""

import asyncio
import base64
import binascii
import logging
import socket
from typing import Final

import h11

from labrunner.errors import LabError
from labrunner.gateway.holders import UNSERVED, TooManyConnections, may_be_served_later
from labrunner.gateway.hosts.passage import Passage, Turned
from labrunner.gateway.hosts.proxysession import ProxySession, tell
from labrunner.gateway.hosts.visitor import HostService, Visitor, Visitors
from labrunner.gateway.reception import Unheard, receive
from labrunner.gateway.serving.headers import Headers, find
from labrunner.gateway.serving.wire import BadRequest, ClientGone, Wire, read_headers

USER: Final = "lab"
"""Who clients are, in the address of the proxy; the token is the password."""
_log: Final = logging.getLogger(__name__)
_CHALLENGE: Final = [("proxy-authenticate", 'Basic realm="lab"')]


async def serve_hosts(
    listener: socket.socket, visitors: Visitors, service: HostService, *, needs_token: bool = True
) -> None:
    """Serve a listener until it is cancelled. Raises StoreError, in a group.

    A listener in a namespace of one attempt's own has one visitor, and needs no token.
    """

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, unheard: Unheard) -> None:
        wire, is_cut = Wire(reader, writer, service.client), True
        try:
            await _HostReception(wire, visitors, service, needs_token=needs_token).converse(unheard)
            is_cut = False
        except ClientGone:
            pass  # what there was to say is in its event
        except LabError:
            raise
        except Exception:  # noqa: BLE001 - see below
            # One connection's trouble, whatever it is, must not end those of all other attempts.
            _log.exception("a connection to a host ended by a mistake of ours")
        finally:
            await wire.close(is_cut=is_cut)

    await receive(listener, attend, most_unheard=service.max_unheard)


class _HostReception:
    """One connection, and whose it is."""

    def __init__(self, wire: Wire, visitors: Visitors, service: HostService, *, needs_token: bool) -> None:
        self._wire = wire
        self._guests = visitors
        self._service = service
        self._needs_token = needs_token

    async def converse(self, unheard: Unheard) -> None:
        """Serve all requests of the connection. Raises ClientGone, StoreError."""
        known = await self._meet()
        if known is None:
            return
        unheard.leave()
        visitor, request = known
        session = ProxySession(self._wire, visitor, self._service)
        try:
            with self._guests.attending(visitor, self._service.max_each):
                await self._serve(session, visitor, request)
        except TooManyConnections as error:
            await session.turn(Passage(visitor=visitor), Turned("too_many", 503, str(error)))

    async def _meet(self) -> tuple[Visitor, h11.Request] | None:
        """The first request that says whose it is; None where none comes."""
        while True:
            try:
                request = await self._wire.read_request()
            except BadRequest as error:
                await self._refuse_unread(error)
                return None
            if (visitor := self._recognise(request)) is not None:
                return visitor, request
            if not self._needs_token:
                return None  # the attempt is over
            await self._turn_away(request)
            if not self._wire.is_reusable:
                return None

    async def _refuse_unread(self, error: BadRequest) -> None:
        visitor = None if self._needs_token else self._guests.find_only()
        if visitor is None:
            await tell(self._wire, error.status, str(error))
            return
        turned = Turned("bad_request", error.status, str(error))
        await ProxySession(self._wire, visitor, self._service).turn(Passage(visitor=visitor), turned)

    async def _serve(self, session: ProxySession, visitor: Visitor, request: h11.Request) -> None:
        await session.answer(request)
        while self._wire.is_reusable and (following := await session.read()) is not None:
            if self._recognise(following) is not visitor:
                await self._turn_away(following)
                return
            await session.answer(following)

    def _recognise(self, request: h11.Request) -> Visitor | None:
        if not self._needs_token:
            return self._guests.find_only()
        return self._guests.find(_find_tokens(read_headers(request.headers)))

    async def _turn_away(self, request: h11.Request) -> None:
        if may_be_served_later(_find_tokens(read_headers(request.headers))):
            await tell(self._wire, 503, UNSERVED)
            return
        told = "the proxy wants the attempt's token: use the address in HTTPS_PROXY as it is"
        await tell(self._wire, 407, told, _CHALLENGE)


def _find_tokens(headers: Headers) -> list[str]:
    """What a client gave as its password, or as its user."""
    kind, _, word = find(headers, "proxy-authorization").partition(" ")
    if kind.lower() != "basic":
        return []
    try:
        user, _, password = base64.b64decode(word.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return []
    return [password, user]
