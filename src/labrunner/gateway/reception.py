"""The way in: connections of a listener, until they have said whose they are.

Rules: no connection brings down another one. Of those that have said nothing yet only so many are kept: the
one that has waited longest makes room for a new one, so that whoever opens thousands shuts nobody out.
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
    """Connections of one listener that have not said whose they are."""

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

    def leave(self, task: asyncio.Task[None] | None = None) -> None:
        """A task, or the one that asks, is known now, or gone."""
        if (known := task or asyncio.current_task()) is not None:
            self._waiting.pop(known, None)


Attend = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Unheard], Coroutine[Any, Any, None]]
"""Serves one connection, and closes it."""


async def receive(listener: socket.socket, attend: Attend, *, most_unheard: int = MAX_UNHEARD) -> None:
    """Accept until cancelled. Raises what `attend` raises, in a group."""
    listener.setblocking(False)
    unheard = Unheard(most_unheard)
    async with asyncio.TaskGroup() as group:
        while True:
            client = await _accept(listener)
            if client is not None:
                task = group.create_task(_admit(client, attend, unheard))
                task.add_done_callback(partial(_close, client))
                unheard.enter(task)


def _close(client: socket.socket, _: asyncio.Task[None]) -> None:
    """One whose task was cancelled before it began is nobody else's to close."""
    client.close()


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


async def _admit(client: socket.socket, attend: Attend, unheard: Unheard) -> None:
    try:
        # asyncio does this only for sockets that were made with TCP by name: a planted one does not say so.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=client)
    except OSError:
        return
    await attend(reader, writer, unheard)
