"""The disk guard: ends a phase whose attempt holds more than its share of the disk.

What counts is what the files take on disk (logs and scratch folders too), each hard link once, links
never followed. A tick costs one statvfs; files are walked only when the file system has lost a fair part
of what the attempt may still take, or when the last walk is old. Walks run in one thread shared by all.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from labrunner.sandbox.usage import measure

TICK_S = 0.25
SLOWEST_TICK_S = 2.0
WALK_AT_LEAST_EVERY_S = 10.0


@cache
def walker() -> ThreadPoolExecutor:
    """The one thread that walks."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk-guard")


@dataclass(slots=True, kw_only=True)
class DiskGuard:
    """Watches one phase; calls `on_over` once, from the event loop, when there is too much."""

    folders: tuple[Path, ...]
    limit: int
    beyond_first_walk: bool = False
    """The limit is for what comes on top of what the first walk found."""
    on_over: Callable[[], None]
    over: bool = field(default=False, init=False)
    _headroom: int = field(default=0, init=False)
    _free_at_walk: int = field(default=0, init=False)
    _walked_at: float = field(default=0.0, init=False)
    _tick_s: float = field(default=TICK_S, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)

    def start(self) -> None:
        """Begin to watch. The first tick walks: nothing is known yet."""
        self._loop = asyncio.get_running_loop()
        self._walked_at = self._loop.time() - WALK_AT_LEAST_EVERY_S
        self._timer = self._loop.call_later(self._tick_s, self._tick)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def check(self, used: int | None) -> bool:
        """Judge what there is when the phase has ended: the answer must not depend on when a tick came.

        `used` is what its keeper counted; None when that would have taken too long.
        """
        if self.over:
            return True
        if used is None:
            used = await asyncio.get_running_loop().run_in_executor(walker(), measure, self.folders)
        self.over = used > self.limit
        return self.over

    def tell_over(self) -> None:
        """End the phase because somebody else saw too much."""
        self.over = True
        self.on_over()

    def _tick(self) -> None:
        lost = self._free_at_walk - free_bytes(self.folders[0])
        old = self._loop.time() - self._walked_at >= WALK_AT_LEAST_EVERY_S
        if old or lost > self._headroom // 4:
            self._walked_at = self._loop.time()
            walker().submit(measure, self.folders).add_done_callback(self._hand_over)
            return
        self._tick_s = min(self._tick_s * 1.5, SLOWEST_TICK_S)
        self._timer = self._loop.call_later(self._tick_s, self._tick)

    def _hand_over(self, walked: "Future[int]") -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._judge, walked.result())

    def _judge(self, used: int) -> None:
        if self._timer is None:
            return
        if self.beyond_first_walk:
            self.limit += used
            self.beyond_first_walk = False
        self._headroom = self.limit - used
        self._free_at_walk = free_bytes(self.folders[0])
        # Walking takes at most a tenth of the time, however many files there are.
        self._tick_s = max(TICK_S, 10 * (self._loop.time() - self._walked_at))
        if self._headroom < 0:
            self.tell_over()
            return
        self._timer = self._loop.call_later(self._tick_s, self._tick)


def free_bytes(folder: Path) -> int:
    """How much the file system of a folder can still take."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
