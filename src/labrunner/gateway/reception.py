"""The way in: connections of a listener, until they have said whose they are.

Rules: no connection brings down another one. Of those that have said nothing yet only so many are kept from
each address: the one that has waited longest makes room for a new one, so that whoever opens thousands shuts
nobody out, neither himself nor those who come from other sandboxes.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

MAX_UNHEARD: Final = 64
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BREATH_S: Final = 0.1
"""Before another connection is accepted where this process has no room for it."""


class Unheard:
    """Connections from one address to a listener that have not said whose they are."""

    def __init__(self, most: int = MAX_UNHEARD) -> None:
        """Nobody is there yet."""
        self._most = most
        self._waiting: dict[asyncio.Task[None], None] = {}

    def enter(self, task: asyncio.Task[None]) -> None:
        """One more; who has waited longest goes, if need be."""
        if len(self._waiting) >= self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.cancel()
        self._waiting[task] = None
        task.add_done_callback(self.leave)

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits."""
        return not self._waiting

    def leave(self, task: asyncio.Task[None] | None = None) -> None:
        """A task, or the one that asks, is known now, or gone."""
        if (known := task or asyncio.current_task()) is not None:
            self._waiting.pop(known, None)


Attend = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Unheard], Coroutine[Any, Any, None]]
"""Serves one connection, and closes it."""


async def receive(listener: socket.socket, attend: Attend, *, most_unheard: int = MAX_UNHEARD) -> None:
    """Accept until cancelled. Raises what `attend` raises, in a group."""
    listener.setblocking(False)
    waiting: dict[str, Unheard] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            came = await _accept(listener)
            if came is not None:
                client, address = came
                unheard = waiting.setdefault(address, Unheard(most_unheard))
                task = group.create_task(_admit(client, attend, unheard))
                unheard.enter(task)
                task.add_done_callback(partial(_close, client, waiting, address))


def _close(client: socket.socket, waiting: dict[str, Unheard], address: str, _: asyncio.Task[None]) -> None:
    """One whose task was cancelled before it began is nobody else's to close."""
    client.close()
    if address in waiting and waiting[address].is_empty:
        del waiting[address]


async def _accept(listener: socket.socket) -> tuple[socket.socket, str] | None:
    try:
        client, address = await asyncio.get_running_loop().sock_accept(listener)
        return client, address[0]
    except ConnectionError:
        return None  # left before it was heard
    except OSError as error:
        if error.errno not in _FULL:
            raise
        await asyncio.sleep(_BREATH_S)
        return None


async def _admit(client: socket.socket, attend: Attend, unheard: Unheard) -> None:
    try:
        # asyncio does this only for sockets that were made with TCP by name: a planted one does not say so.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=client)
    except OSError:
        return
    await attend(reader, writer, unheard)
