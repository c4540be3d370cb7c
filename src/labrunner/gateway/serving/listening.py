"""Listeners: sockets on which attempts find their models.

Rules: no connection brings down another one, and no more than a few hundred are open at once. A disk that
takes no rows ends the service: an answer without a record is none. Tokens are compared in constant time,
with all that there are.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from labrunner.errors import LabError
from labrunner.gateway.dialects.speech import Declined
from labrunner.gateway.serving.caller import Caller
from labrunner.gateway.serving.errorshape import write_error
from labrunner.gateway.serving.exchange import CutOutside, carry
from labrunner.gateway.serving.headers import find_tokens, is_same_token
from labrunner.gateway.serving.providerlink import ProviderLink
from labrunner.gateway.serving.wire import BadRequest, ClientGone, ClientPatience, RequestHead, Wire

_log: Final = logging.getLogger(__name__)
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BREATH_S: Final = 0.1
"""Before another connection is accepted where this process has no room for it."""
_LINE: Final = 1024


class Callers:
    """Attempts that a listener serves: one where it is planted, all of a run where it is shared."""

    def __init__(self, callers: Iterable[Caller] = ()) -> None:
        """Begin with these."""
        self._callers = list(callers)
        self._busy: dict[str, set[asyncio.Task[None]]] = {}

    def add(self, caller: Caller) -> None:
        """Serve one more."""
        self._callers.append(caller)

    def remove(self, caller: Caller) -> None:
        """Serve it no longer: its token is worth nothing from now on."""
        self._callers.remove(caller)

    def find(self, tokens: Sequence[str]) -> Caller | None:
        """Whose token was given; every one is compared with every one."""
        found = [each for each in self._callers for token in tokens if is_same_token(token, each.token)]
        return found[0] if found else None

    @contextmanager
    def attending(self, caller: Caller) -> Iterator[None]:
        """Know who is at work for a caller."""
        task = asyncio.current_task()
        assert task is not None
        busy = self._busy.setdefault(caller.token, set())
        busy.add(task)
        try:
            yield
        finally:
            busy.discard(task)

    async def dismiss(self, caller: Caller) -> None:
        """Serve it no longer, and cut what is under way for it: each of its calls has its row on return."""
        self.remove(caller)
        busy = self._busy.pop(caller.token, set())
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What listeners share."""

    links: Mapping[str, ProviderLink]
    patience: ClientPatience = field(default_factory=ClientPatience)
    max_clients: int = 256
    """Connections of one listener at once; more are closed unheard."""


def listen_on_loopback(port: int = 0) -> socket.socket:
    """A listener on a loopback port of this network namespace."""
    return socket.create_server(("127.0.0.1", port), backlog=_LINE)


async def serve(listener: socket.socket, callers: Callers, service: Service) -> None:
    """Serve a listener until it is cancelled. Raises StoreError, in a group."""
    listener.setblocking(False)
    clients: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            client = await _accept(listener)
            if client is None:
                continue
            if len(clients) >= service.max_clients:
                client.close()
                continue
            task = group.create_task(_attend(client, callers, service))
            clients.add(task)
            task.add_done_callback(clients.discard)


async def _accept(listener: socket.socket) -> socket.socket | None:
    try:
        return (await asyncio.get_running_loop().sock_accept(listener))[0]
    except ConnectionError:
        return None  # left before it was heard
    except OSError as error:
        if error.errno not in _FULL:
            raise
        await asyncio.sleep(_BREATH_S)
        return None


async def _attend(client: socket.socket, callers: Callers, service: Service) -> None:
    """Serve one connection."""
    try:
        # asyncio does this only for sockets that were made with TCP by name: a planted one does not say so.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=client)
    except OSError:
        client.close()
        return
    wire, is_cut = Wire(reader, writer, service.patience), True
    try:
        await _converse(wire, callers, service)
        is_cut = False
    except (ClientGone, CutOutside):
        pass  # what there was to say is in the call's row
    except LabError:
        raise
    except Exception:  # noqa: BLE001 - see below
        # One connection's trouble, whatever it is, must not end those of all other attempts.
        _log.exception("a connection of an attempt ended by a mistake of ours")
    finally:
        await wire.close(is_cut=is_cut)


async def _converse(wire: Wire, callers: Callers, service: Service) -> None:
    while True:
        try:
            head = await wire.read_head()
            caller = callers.find(find_tokens(head.headers, head.query))
            if caller is None:
                await _turn_away(wire, head, service)
                return
            with callers.attending(caller):
                await carry(wire, head, caller, service.links)
        except BadRequest as error:
            if wire.has_answered:
                raise ClientGone from error
            told = Declined(status=error.status, kind="invalid_request_error", message=str(error))
            await wire.send_whole(error.status, write_error("openai", told), closes=True)
            return
        if not wire.is_reusable:
            return


async def _turn_away(wire: Wire, head: RequestHead, service: Service) -> None:
    link = service.links.get(head.path.split("/")[1])
    told = "the key is not this attempt's token: use the one in the environment of the agent"
    declined = Declined(status=401, kind="authentication_error", message=told)
    dialect = link.entry.dialect if link else "openai"
    await wire.send_whole(401, write_error(dialect, declined), closes=True)
