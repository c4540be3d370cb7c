"""Places where attempts come in: a listener for models, one for hosts, and who is served there.

Rules: what is planted into the network namespace of a sandbox serves one attempt; what stands on an address
of the host serves all, and knows them by their tokens. A disk that takes no records shuts the doors that need
it, which is told.
"""

import asyncio
import fcntl
import logging
import resource
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from labrunner.errors import LabError, SandboxFailed
from labrunner.gateway.hosts.hostdoor import serve_hosts
from labrunner.gateway.hosts.visitor import HostService, Visitor, Visitors
from labrunner.gateway.planting import plant
from labrunner.gateway.process.ports import HOSTS_PORT, MODELS_PORT
from labrunner.gateway.serving.caller import Caller
from labrunner.gateway.serving.listening import Callers, Service, serve

_log: Final = logging.getLogger(__name__)
_LINE: Final = 1024
_HIGH: Final = 1 << 14
OnBroken = Callable[[str], None]
"""Told why nothing is served any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """One phase of an attempt, as the doors know it: to models, to hosts, or to both."""

    caller: Caller | None
    visitor: Visitor | None

    def close(self) -> None:
        """Close its files. Raises StoreError."""
        if self.caller is not None:
            self.caller.journal.close()
        if self.visitor is not None:
            self.visitor.journal.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all doors share."""

    models: Service
    hosts: HostService


@dataclass(slots=True, kw_only=True)
class Doorway:
    """One place."""

    services: Services
    on_broken: OnBroken
    is_shared: bool
    callers: Callers = field(default_factory=Callers)
    visitors: Visitors = field(default_factory=Visitors)
    serving: list[asyncio.Task[None]] = field(default_factory=list)

    def add(self, party: Party) -> None:
        """Serve one more."""
        if party.caller is not None:
            self.callers.add(party.caller)
        if party.visitor is not None:
            self.visitors.add(party.visitor)

    async def dismiss(self, party: Party) -> None:
        """Serve it no longer; what was under way for it is cut, and recorded on return."""
        if party.caller is not None:
            await self.callers.dismiss(party.caller)
        if party.visitor is not None:
            await self.visitors.dismiss(party.visitor)

    def open_models(self, listener: socket.socket) -> None:
        """Let callers in."""
        self._serve(listener, serve(listener, self.callers, self.services.models))

    def open_hosts(self, listener: socket.socket) -> None:
        """Let visitors in."""
        hosts = serve_hosts(listener, self.visitors, self.services.hosts, needs_token=self.is_shared)
        self._serve(listener, hosts)

    def shut(self) -> None:
        """Let nobody in any more; those who are in are cut."""
        for task in self.serving:
            task.cancel()

    async def close(self) -> None:
        """Shut, and see everything end."""
        self.shut()
        if self.serving:
            await asyncio.wait(self.serving)

    def _serve(self, listener: socket.socket, work: Coroutine[Any, Any, None]) -> None:
        self.serving.append(asyncio.ensure_future(self._guard(listener, work)))

    async def _guard(self, listener: socket.socket, work: Coroutine[Any, Any, None]) -> None:
        try:
            with listener:
                await work
        except* LabError as errors:
            told = "; ".join(str(error) for error in errors.exceptions)
            _log.error("what passes can't be recorded any more: %s", told)
            self.on_broken(told)


async def plant_doorway(doorway: Doorway, pid: int, party: Party) -> None:
    """Have the doors that a phase needs in the network namespace of its process. Raises SandboxFailed."""
    if party.caller is not None:
        doorway.open_models(_put_last(await asyncio.to_thread(plant, pid, port=MODELS_PORT)))
    if party.visitor is not None:
        doorway.open_hosts(_put_last(await asyncio.to_thread(plant, pid, port=HOSTS_PORT)))


def share_doorway(doorway: Doorway, host: str, ports: tuple[int, int]) -> tuple[int, int]:
    """Have both doors on an address of this host; their ports. Raises SandboxFailed."""
    with SandboxFailed.during("network", f"having doors to models and hosts on {host}"):
        listeners = [_put_last(socket.create_server((host, port), backlog=_LINE)) for port in ports]
    doorway.open_models(listeners[0])
    doorway.open_hosts(listeners[1])
    return listeners[0].getsockname()[1], listeners[1].getsockname()[1]


def _put_last(listener: socket.socket) -> socket.socket:
    """The same under a high number: of a process that is killed those are closed first.

    Who was cut and comes again at once is then refused. A listener that outlives connections cuts it twice.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with listener:
        number = fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD_CLOEXEC, min(most // 2, _HIGH))
    return socket.socket(fileno=number)
