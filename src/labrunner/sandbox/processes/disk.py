"""The disk guard: ends a phase whose attempt holds more than its share of the disk, or whose disk is full.

What counts is what the files take on disk (logs and scratch folders too), each hard link once, links
never followed, and how many they are. A tick costs one statvfs; files are walked only when the file system
has lost a fair part of what the attempt may still take, or when the last walk is old. Walks run in one thread
shared by all. A phase that goes over its own share is its own doing; a disk that others filled is not.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from labrunner.files.strangers.usage import count
from labrunner.sandbox.processes.enforcement import Share
from labrunner.sandbox.processes.room import Vigil

TICK_S = 0.25
SLOWEST_TICK_S = 2.0
WALK_AT_LEAST_EVERY_S = 10.0


class Free(NamedTuple):
    """Bytes and files that there is still room for."""

    bytes: int
    files: int


@cache
def walker() -> ThreadPoolExecutor:
    """The one thread that walks."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk-guard")


@dataclass(slots=True, kw_only=True)
class DiskGuard:
    """Watches one phase; calls `on_over` once, from the event loop, when there is too much."""

    folders: tuple[Path, ...]
    share: Share
    disks: tuple[Path, ...] = ()
    """Places on other disks that the phase writes to unseen."""
    beyond_first_walk: bool = False
    """The share is for what comes on top of what the first walk found."""
    on_over: Callable[[], None]
    over: bool = field(default=False, init=False)
    room: Vigil = field(init=False)
    _headroom: Free = field(default=Free(0, 0), init=False)
    _free_at_walk: Free = field(default=Free(0, 0), init=False)
    _walked_at: float = field(default=0.0, init=False)
    _tick_s: float = field(default=TICK_S, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)

    def start(self) -> None:
        """Begin to watch. The first tick walks: nothing is known yet."""
        self._loop = asyncio.get_running_loop()
        self._walked_at = self._loop.time() - WALK_AT_LEAST_EVERY_S
        self._timer = self._loop.call_later(self._tick_s, self._tick)
        self.room = Vigil(on_full=self.on_over)
        self.room.begin((*self.folders, *self.disks))

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.room.end()

    async def check(self, used: tuple[int, int] | None) -> bool:
        """Judge what there is when the phase has ended: the answer must not depend on when a tick came.

        `used` is what its keeper counted; None when that would have taken too long.
        """
        if self.over:
            return True
        if used is None:
            used = await asyncio.get_running_loop().run_in_executor(walker(), count, self.folders)
        self.over = not self.share.holds(used)
        return self.over

    def tell_over(self) -> None:
        """End the phase because somebody else saw too much."""
        self.over = True
        self.on_over()

    def refuse_full(self) -> None:
        """Raise SandboxFailed when the phase ran on a full disk, unless it went over its own share."""
        if self.room.seen and not self.over:
            raise self.room.failure()

    def _tick(self) -> None:
        free = look(self.folders[0])
        old = self._loop.time() - self._walked_at >= WALK_AT_LEAST_EVERY_S
        if old or self._has_lost_much(free):
            self._walked_at = self._loop.time()
            walker().submit(count, self.folders).add_done_callback(self._hand_over)
            return
        self._tick_s = min(self._tick_s * 1.5, SLOWEST_TICK_S)
        self._timer = self._loop.call_later(self._tick_s, self._tick)

    def _has_lost_much(self, free: Free) -> bool:
        return any(
            before - now > left // 4
            for before, now, left in zip(self._free_at_walk, free, self._headroom, strict=True)
        )

    def _hand_over(self, walked: "Future[tuple[int, int]]") -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._judge, walked.result())

    def _judge(self, used: tuple[int, int]) -> None:
        if self._timer is None:
            return
        if self.beyond_first_walk:
            self.share = self.share.plus(used)
            self.beyond_first_walk = False
        self._headroom = Free(self.share.bytes - used[0], self.share.files - used[1])
        self._free_at_walk = look(self.folders[0])
        # Walking takes at most a tenth of the time, however many files there are.
        self._tick_s = max(TICK_S, 10 * (self._loop.time() - self._walked_at))
        if not self.share.holds(used):
            self.tell_over()
            return
        self._timer = self._loop.call_later(self._tick_s, self._tick)


def look(folder: Path) -> Free:
    """How much the file system of a folder can still take."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return Free(0, 0)
    return Free(found.f_bavail * found.f_frsize, found.f_favail)
