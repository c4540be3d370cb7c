"""The attempts that a gateway serves: let in, watched, let go.

Rules: a listener is planted into the network namespace of a sandbox's process, and closed when that process
is gone. Who comes to a shared address is known by its token alone. An attempt that is let in again, after its
container or this process was started again, goes on with what its calls on disk say.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Final

from labrunner.errors import LabError
from labrunner.gateway.metering.purse import CapReached, Caps, Purse
from labrunner.gateway.planting import plant
from labrunner.gateway.process.control import Admit, Broken, Capped, Event, Listening, ToldCaps
from labrunner.gateway.process.ports import MODELS_PORT
from labrunner.gateway.process.refilling import sum_attempt
from labrunner.gateway.recording.calljournal import open_journal
from labrunner.gateway.serving.caller import Caller
from labrunner.gateway.serving.listening import Callers, Service, serve

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Watched:
    """A process of a sandbox, known by more than its number."""

    pid: int
    fd: int

    def close(self) -> None:
        """Watch it no longer."""
        asyncio.get_running_loop().remove_reader(self.fd)
        os.close(self.fd)


@dataclass(slots=True, kw_only=True)
class Visit:
    """One phase of an attempt, while it is served."""

    admitted: Admit
    caller: Caller
    callers: Callers
    """Those of its own listener, or of the shared one."""
    is_standing: bool = False
    """Whether it is one of them."""
    watched: Watched | None = None
    serving: list[asyncio.Task[None]] = field(default_factory=list)
    """Of listeners of its own."""


class Attendance:
    """Who is served."""

    def __init__(self, service: Service, purse: Purse, tell: Callable[[Event], None]) -> None:
        """Serve nobody yet; `purse` is the run's."""
        self._service = service
        self._purse = purse
        self._tell = tell
        self._visits: dict[str, Visit] = {}
        self._shared: dict[str, tuple[Callers, Listening, list[asyncio.Task[None]]]] = {}
        self.changed = asyncio.Event()
        """Set when somebody has gone."""

    @property
    def is_empty(self) -> bool:
        """Whether nobody is served."""
        return not self._visits

    def listen(self, host: str, ports: tuple[int, int]) -> Listening:
        """Listen on an address that several attempts share. Raises OSError."""
        if host not in self._shared:
            listener = socket.create_server((host, ports[0]), backlog=1024)
            callers = Callers()
            listening = Listening(ports=(listener.getsockname()[1], 0))
            tasks = [asyncio.ensure_future(self._serve(listener, callers, None))]
            self._shared[host] = (callers, listening, tasks)
        return self._shared[host][1]

    async def admit(self, admitted: Admit) -> None:
        """Let an attempt's phase in, or have its listeners where it is now. Raises LabError, OSError."""
        visit = self._visits.get(admitted.visit)
        if visit is not None and visit.admitted == admitted and (visit.watched or admitted.pid is None):
            return
        if visit is None:
            visit = self._visits[admitted.visit] = await self._begin(admitted)
        await self._let_stand(visit)
        visit.admitted = admitted
        try:
            await self._stand(visit)
        except BaseException:
            await self.dismiss(admitted.visit)
            raise

    async def _begin(self, admitted: Admit) -> Visit:
        folder = Path(admitted.folder)
        spent = await asyncio.to_thread(sum_attempt, folder)
        caps = make_caps(admitted.caps)
        purse = Purse(whose="attempt", setting="agent.limits", caps=caps, spent=spent)
        journal = await asyncio.to_thread(open_journal, folder)
        caller = Caller(
            ids=admitted.ids,
            attempt=admitted.attempt,
            token=admitted.token,
            providers=frozenset(admitted.models),
            purses=(purse, self._purse),
            journal=journal,
            on_capped=lambda reached: self._tell_capped(admitted.visit, reached),
        )
        return Visit(admitted=admitted, caller=caller, callers=Callers())

    async def _stand(self, visit: Visit) -> None:
        """Have listeners where the phase comes to."""
        admitted = visit.admitted
        if admitted.pid is not None:
            visit.watched = self._watch(admitted.visit, admitted.pid)
        if admitted.host is not None:
            visit.callers = self._shared[admitted.host][0]
        else:
            assert admitted.pid is not None
            visit.callers = Callers()
            listener = await asyncio.to_thread(plant, admitted.pid, port=MODELS_PORT)
            serving = self._serve(listener, visit.callers, admitted.visit)
            visit.serving.append(asyncio.ensure_future(serving))
        visit.callers.add(visit.caller)
        visit.is_standing = True

    async def _let_stand(self, visit: Visit) -> None:
        """Close what stands where the phase was before."""
        if visit.watched is not None:
            visit.watched.close()
            visit.watched = None
        if visit.is_standing:
            visit.is_standing = False
            await visit.callers.dismiss(visit.caller)
        await _end(visit.serving)
        visit.serving.clear()

    def _watch(self, name: str, pid: int) -> Watched:
        watched = Watched(pid=pid, fd=os.pidfd_open(pid))
        asyncio.get_running_loop().add_reader(watched.fd, self._on_gone, name, watched)
        return watched

    def _on_gone(self, name: str, watched: Watched) -> None:
        """A sandbox's process has ended: nobody is on the other side any more."""
        visit = self._visits.get(name)
        if visit is not None and visit.watched is watched:
            visit.watched = None
            for task in visit.serving:
                task.cancel()
        watched.close()
        self.changed.set()

    async def dismiss(self, name: str) -> None:
        """Let a phase go; its calls are written and its files closed on return."""
        visit = self._visits.pop(name, None)
        if visit is not None:
            await self._let_stand(visit)
            visit.caller.journal.close()
            self.changed.set()

    async def dismiss_lost(self) -> None:
        """Let those go of whose sandbox nothing is known to be alive."""
        for name in [name for name, visit in self._visits.items() if visit.watched is None]:
            await self.dismiss(name)

    async def close(self) -> None:
        """Let all go."""
        for name in list(self._visits):
            await self.dismiss(name)
        for _, _, tasks in self._shared.values():
            await _end(tasks)

    async def _serve(self, listener: socket.socket, callers: Callers, name: str | None) -> None:
        try:
            with listener:
                await serve(listener, callers, self._service)
        except* LabError as errors:
            told = "; ".join(str(error) for error in errors.exceptions)
            _log.error("calls can't be written any more: %s", told)
            for visit in [name] if name is not None else list(self._visits):
                self._tell(Broken(visit=visit, message=told))

    def _tell_capped(self, name: str, reached: CapReached) -> None:
        self._tell(Capped(visit=name, whose=reached.whose, limit=reached.limit))


def make_caps(told: ToldCaps) -> Caps:
    """Caps as purses have them."""
    cost = None if told.cost_usd is None else Decimal(repr(told.cost_usd))
    return Caps(cost_usd=cost, tokens=told.tokens, requests=told.requests)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
