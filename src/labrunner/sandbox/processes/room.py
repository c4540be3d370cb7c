"""Whether a disk that attempts write to is full: watched for all of them at once, while any of them runs.

A full disk fails whoever writes next, not whoever filled it. So a phase that ran while one was full says
nothing about its agent: it is ended, and its attempt is missing data. A disk counts as full while a reserve
is still free: what ends the phases needs room of its own. A look is taken often, and at the beginning and at
the end of each phase; it costs one statvfs for each disk.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed

LOOK_EVERY_S: Final = 0.05
RESERVE_BYTES: Final = 128 << 20
RESERVE_FILES: Final = 2000
DISK_FULL: Final = "disk_full"
"""The reason of an attempt's failure on a full disk."""
SMALL: Final = 32
"""On a small disk the reserve is this part of it."""


def look_at(place: Path) -> str:
    """What a full disk has left, in words; empty when it is not full, or can't be looked at."""
    try:
        found = os.statvfs(place)
    except OSError:
        return ""
    free, whole = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    if free < min(RESERVE_BYTES, whole // SMALL):
        return f"{free / 1e6:.0f} MB free"
    # Some file systems make room for names as they are needed, and say so with a zero.
    if found.f_favail < min(RESERVE_FILES, found.f_files // SMALL):
        return f"room for {found.f_favail} more files"
    return ""


@dataclass(slots=True, kw_only=True, eq=False)
class Vigil:
    """One phase's stay on the disks that it writes to."""

    on_full: Callable[[], None]
    """Called once, from the event loop."""
    seen: str = field(default="", init=False)
    """What a disk had left when it was full; empty while none was."""
    _watches: "tuple[_Watch, ...]" = field(default=(), init=False)

    def begin(self, places: Iterable[Path]) -> None:
        """Watch the disks of these places."""
        self._watches = tuple(_watch_over(places))
        for watch in self._watches:
            watch.join(self)

    def end(self) -> None:
        """Look a last time, and let go. What is seen now is only noted: there is nothing left to end."""
        self.on_full = _nothing
        for watch in self._watches:
            watch.leave(self)
        self._watches = ()

    def hear(self, told: str) -> None:
        """Take notice of a full disk."""
        if not self.seen:
            self.seen = told
            self.on_full()

    def failure(self) -> SandboxFailed:
        """Whose fault it is: the host's."""
        return SandboxFailed(DISK_FULL, f"the host's disk was full while it ran: {self.seen}")


def _nothing() -> None:
    """What there is to do once a phase has ended."""


class _Watch:
    """One disk, looked at for as long as anybody stays on it."""

    def __init__(self, place: Path, forget: Callable[[], object]) -> None:
        self._place = place
        self._forget = forget
        self._vigils: set[Vigil] = set()
        self._timer: asyncio.TimerHandle | None = None

    def join(self, vigil: Vigil) -> None:
        """Look for one more, who may not be ready to hear of it at once."""
        self._vigils.add(vigil)
        loop = asyncio.get_running_loop()
        loop.call_soon(self._look)
        if self._timer is None:
            self._timer = loop.call_later(LOOK_EVERY_S, self._tick)

    def leave(self, vigil: Vigil) -> None:
        """Look for one fewer, once more before it goes."""
        self._look()
        self._vigils.discard(vigil)
        if not self._vigils and self._timer is not None:
            self._timer.cancel()
            self._forget()

    def _tick(self) -> None:
        self._look()
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._tick)

    def _look(self) -> None:
        if told := look_at(self._place):
            for vigil in list(self._vigils):
                vigil.hear(f"{self._place} had {told}")


_watches: dict[tuple[asyncio.AbstractEventLoop, int], _Watch] = {}


def _watch_over(places: Iterable[Path]) -> Iterable[_Watch]:
    """The watches over the disks of these places, each disk once; what is not there has none."""
    loop, found = asyncio.get_running_loop(), dict[int, Path]()
    for place in places:
        try:
            found.setdefault(place.stat().st_dev, place)
        except OSError:
            continue
    for device, place in found.items():
        key = (loop, device)
        if key not in _watches:
            _watches[key] = _Watch(place, partial(_watches.pop, key, None))
        yield _watches[key]
