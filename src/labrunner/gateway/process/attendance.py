"""The attempts that a gateway serves: let in, watched, let go.

Rules: a phase's doors are closed when the process of its sandbox is gone. One that is let in again, after its
container or this process was started again, goes on with what its calls on disk say.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from labrunner.errors import SandboxFailed
from labrunner.experiment.allowlist import parse_list
from labrunner.gateway.hosts.visitor import Visitor
from labrunner.gateway.metering.purse import CapReached, Caps, Purse
from labrunner.gateway.process.control import Admit, Broken, Capped, Event, Listening, Missed, ToldCaps
from labrunner.gateway.process.doorways import Doorway, Party, Services, plant_doorway, share_doorway
from labrunner.gateway.process.refilling import sum_attempt
from labrunner.gateway.recording.calljournal import CALLS, open_journal
from labrunner.gateway.recording.doorjournal import open_doors
from labrunner.gateway.recording.opencalls import OPEN
from labrunner.gateway.replaying.tape import Tape, open_tape
from labrunner.gateway.serving.caller import Caller


@dataclass(slots=True, kw_only=True)
class Watched:
    """A process of a sandbox, known by more than its number."""

    fd: int

    def close(self) -> None:
        """Watch it no longer."""
        asyncio.get_running_loop().remove_reader(self.fd)
        os.close(self.fd)


@dataclass(slots=True, kw_only=True)
class Stay:
    """One phase of an attempt, while it is served."""

    admitted: Admit
    party: Party
    doorway: Doorway | None = None
    """Where it comes in, once it does."""
    watched: Watched | None = None
    """None where no process stands for it, or that one is gone."""


class Attendance:
    """Who is served."""

    def __init__(self, services: Services, purse: Purse, tell: Callable[[Event], None]) -> None:
        """Serve nobody yet; `purse` is the run's."""
        self._services = services
        self._purse = purse
        self._tell = tell
        self._stays: dict[str, Stay] = {}
        self._shared: dict[str, tuple[Doorway, Listening]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.changed = asyncio.Event()
        """Set when somebody has gone."""

    @property
    def is_empty(self) -> bool:
        """Whether nobody is served."""
        return not self._stays

    def listen(self, host: str, ports: tuple[int, int]) -> Listening:
        """Listen on an address that several attempts share. Raises SandboxFailed."""
        if host not in self._shared:
            doorway = self._make_doorway(self._tell_all_broken, is_shared=True)
            self._shared[host] = (doorway, Listening(ports=share_doorway(doorway, host, ports)))
        return self._shared[host][1]

    async def admit(self, admitted: Admit) -> None:
        """Let an attempt's phase in, or have its doors where it is now. Raises LabError, OSError."""
        async with self._turn(admitted.visit):
            await self._admit(admitted)

    async def _admit(self, admitted: Admit) -> None:
        stay = self._stays.get(admitted.visit)
        if stay is not None and stay.admitted == admitted and (stay.watched or admitted.pid is None):
            return
        if stay is None:
            party = await self._prepare(admitted)
            stay = self._stays[admitted.visit] = Stay(admitted=admitted, party=party)
        await self._turn_out(stay)
        stay.admitted = admitted
        try:
            await self._let_in(stay)
        except BaseException:
            await self._dismiss(admitted.visit)
            raise

    async def _prepare(self, admitted: Admit) -> Party:
        # Most begin with an empty folder: a thread would cost them more than a look.
        folder = Path(admitted.folder)
        if admitted.hosts or admitted.tapes or (folder / CALLS).exists() or (folder / OPEN).exists():
            return await asyncio.to_thread(self._make_party, admitted)
        return self._make_party(admitted)

    def _make_party(self, admitted: Admit) -> Party:
        folder, ids, attempt, token = (
            Path(admitted.folder),
            admitted.ids,
            admitted.attempt,
            admitted.token,
        )
        caller = visitor = None
        if admitted.models:
            journal = open_journal(folder)
            spent, caps = sum_attempt(folder), make_caps(admitted.caps)
            purse = Purse(whose="attempt", setting="agent.limits", caps=caps, spent=spent)
            caller = Caller(
                ids=ids,
                attempt=attempt,
                token=token,
                providers=frozenset(admitted.models),
                purses=(purse, self._purse),
                journal=journal,
                on_capped=partial(self._tell_capped, admitted.visit),
                tape=self._open_tape(admitted),
                on_missed=partial(self._tell_missed, admitted.visit),
            )
        if admitted.hosts:
            visitor = Visitor(
                ids=ids,
                attempt=attempt,
                phase=admitted.phase,
                token=token,
                allow=parse_list(admitted.hosts),
                journal=open_doors(folder, admitted.phase),
            )
        return Party(caller=caller, visitor=visitor)

    def _open_tape(self, admitted: Admit) -> Tape | None:
        """What answers in a provider's place; an attempt without recorded calls has an empty one."""
        if admitted.replay is None:
            return None
        return open_tape(admitted.replay, map(Path, admitted.tapes), Path(admitted.folder))

    async def _let_in(self, stay: Stay) -> None:
        """Have the doors where the phase comes to."""
        admitted = stay.admitted
        if admitted.pid is not None:
            stay.watched = self._watch(admitted.visit, admitted.pid)
        if admitted.host is not None:
            doorway = self._shared[admitted.host][0]
        elif admitted.pid is not None:
            on_broken = partial(self._tell_broken, admitted.visit)
            doorway = stay.doorway = self._make_doorway(on_broken, is_shared=False)
            await plant_doorway(doorway, admitted.pid, stay.party)
        else:
            raise SandboxFailed("network", "a phase was let in that is nowhere")
        doorway.add(stay.party)
        stay.doorway = doorway

    async def _turn_out(self, stay: Stay) -> None:
        """Close what stands where the phase was before."""
        if stay.watched is not None:
            stay.watched.close()
            stay.watched = None
        doorway, stay.doorway = stay.doorway, None
        if doorway is None:
            return
        if doorway.is_shared:
            await doorway.dismiss(stay.party)
        else:
            await doorway.close()

    def _make_doorway(self, on_broken: Callable[[str], None], *, is_shared: bool) -> Doorway:
        return Doorway(services=self._services, on_broken=on_broken, is_shared=is_shared)

    def _watch(self, name: str, pid: int) -> Watched:
        watched = Watched(fd=os.pidfd_open(pid))
        asyncio.get_running_loop().add_reader(watched.fd, self._on_gone, name, watched)
        return watched

    def _on_gone(self, name: str, watched: Watched) -> None:
        """A sandbox's process has ended: nobody is on the other side any more."""
        stay = self._stays.get(name)
        if stay is not None and stay.watched is watched:
            stay.watched = None
            if stay.doorway is not None and not stay.doorway.is_shared:
                stay.doorway.shut()
        watched.close()
        self.changed.set()

    async def dismiss(self, name: str) -> None:
        """Let a phase go; all that passed is recorded, and its files are closed on return."""
        async with self._turn(name):
            await self._dismiss(name)

    def _turn(self, name: str) -> asyncio.Lock:
        """What is asked for one phase is done in the order in which it was asked for."""
        lock = self._turns.get(name)
        if lock is None:
            lock = self._turns[name] = asyncio.Lock()
        return lock

    async def _dismiss(self, name: str) -> None:
        stay = self._stays.pop(name, None)
        if stay is not None:
            await self._turn_out(stay)
            if stay.party.visitor is None:
                stay.party.close()
            else:
                await asyncio.to_thread(stay.party.close)
            self.changed.set()

    async def dismiss_lost(self) -> None:
        """Let those go of whose sandbox nothing is known to be alive."""
        for name in [name for name, stay in self._stays.items() if stay.watched is None]:
            await self.dismiss(name)

    async def close(self) -> None:
        """Let all go."""
        for name in list(self._stays):
            await self.dismiss(name)
        for doorway, _ in self._shared.values():
            await doorway.close()

    def _tell_capped(self, name: str, reached: CapReached) -> None:
        self._tell(Capped(visit=name, whose=reached.whose, limit=reached.limit))

    def _tell_missed(self, name: str) -> None:
        self._tell(Missed(visit=name))

    def _tell_broken(self, name: str, message: str) -> None:
        self._tell(Broken(visit=name, message=message))

    def _tell_all_broken(self, message: str) -> None:
        for name in self._stays:
            self._tell_broken(name, message)


def make_caps(told: ToldCaps) -> Caps:
    """Caps as purses have them."""
    cost = None if told.cost_usd is None else Decimal(repr(told.cost_usd))
    return Caps(cost_usd=cost, tokens=told.tokens, requests=told.requests)
