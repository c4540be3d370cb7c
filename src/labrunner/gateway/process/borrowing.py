"""What this process borrows of the run's funds, where it is not the run's only gateway.

Rules: what it used is written down before a request is let through, unsynced: that outlives this process,
though not a power cut. What was in flight when it died counts as spent.
"""

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from labrunner.files.host import boot_id
from labrunner.gateway.metering.allotment import Allotment
from labrunner.gateway.metering.fund import Amounts
from labrunner.gateway.metering.purse import Purse
from labrunner.gateway.process.control import Lend, Stated
from labrunner.gateway.serving.turnstile import BorrowedSlots

ACCOUNT: Final = "account"
_ROOM: Final = 4096
_KEPT: Final = 8
"""Of so many processes before this one it is kept what they used."""


class UseNote(msgspec.Struct, frozen=True, kw_only=True):
    """What processes have used here: this one at the moment, and those before it."""

    boot_id: str
    used: Mapping[str, Amounts]


class Borrowing:
    """Everything that one process has borrowed."""

    def __init__(
        self, folder: Path, purse: Purse, tell: Callable[[Stated], None], is_idle: Callable[[], bool]
    ) -> None:
        """Have nothing yet; `is_idle` says whether nobody is served."""
        self._path = folder / ACCOUNT
        self._purse, self._tell, self._is_idle = purse, tell, is_idle
        self._instance = secrets.token_hex(8)
        self._boot_id = boot_id()
        self._ended = dict(list(read_ended(folder).items())[-_KEPT:])
        self._places: dict[str, BorrowedSlots] = {}
        self._most: dict[str, int] = {}
        self._is_due = self._is_full = False
        self._fd: int | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything is borrowed, and not this process' own."""
        return self._fd is not None

    def begin(self) -> None:
        """Hear from now on whoever lends: it is told everything."""
        names = tuple(self._purse.caps.amounts)
        if self._purse.allotment is None:
            self._purse.allotment = Allotment(*names)
            self._purse.on_change = self._on_spending
        self._purse.allotment.renew(names)
        if self._fd is None:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._is_full = True
        self._on_spending()

    def find_slots(self, place: str, most: int) -> BorrowedSlots:
        """A provider's places."""
        self._most[place] = most
        if place not in self._places:
            self._places[place] = BorrowedSlots(self.look)
        return self._places[place]

    def take(self, lend: Lend) -> None:
        """Hear how the funds stand; what was meant for a process before this one is not lent to it."""
        if lend.instance != self._instance:
            return
        if lend.money is not None and self._purse.allotment is not None:
            self._purse.allotment.take(lend.money)
            self._purse.wake()
        for place, terms in lend.places.items():
            if (slots := self._places.get(place)) is not None:
                slots.allotment.take(terms)
                slots.let_in()

    def look(self) -> None:
        """See soon whether something has to be said: who was woken has what it waited for by then."""
        if self.is_on and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._state)

    def close(self) -> None:
        """Write nothing more."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _on_spending(self) -> None:
        if self._fd is not None:
            used = self._purse.spent.plus(self._purse.held).amounts
            note = UseNote(boot_id=self._boot_id, used={**self._ended, self._instance: used})
            os.pwrite(self._fd, msgspec.json.encode(note).ljust(_ROOM), 0)
        self.look()

    def _state(self) -> None:
        self._is_due = False
        is_full, self._is_full = self._is_full, False
        is_idle = self._is_idle()
        money, allotment = None, self._purse.allotment
        if allotment is not None:
            if is_full:
                allotment.forget_stated()
            money = allotment.state(self._purse.tell_use(), is_idle=is_idle)
        places = {}
        for place, slots in self._places.items():
            if is_full:
                slots.allotment.forget_stated()
            if (told := slots.allotment.state(slots.tell_use(), is_idle=is_idle)) is not None:
                places[place] = told
        if is_full or money is not None or places:
            most = {place: self._most[place] for place in places}
            self._tell(
                Stated(instance=self._instance, money=money, places=places, most=most, ended=self._ended)
            )


def state_nobody(folder: Path) -> Stated:
    """How things stand where no process is."""
    return Stated(instance="", ended=read_ended(folder))


def read_ended(folder: Path) -> dict[str, Amounts]:
    """What processes before used, if they wrote that down and the machine was not started again since."""
    with suppress(OSError, msgspec.DecodeError):  # nobody knows: all that they had counts as spent
        note = msgspec.json.decode((folder / ACCOUNT).read_bytes(), type=UseNote)
        if note.boot_id == boot_id():
            return dict(note.used)
    return {}
