"""The disk guard: ends a phase whose attempt holds more than its share of the disk.

What counts is what the files take on disk (logs and scratch folders too), each hard link once, links
never followed. A tick costs one statvfs; files are walked only when the file system has lost a fair part
of what the attempt may still take, or when the last walk is old. Walks run in one thread shared by all.
A tree deeper than `MAX_DEPTH` counts as over: nobody honest builds one, and it could hide anything.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TICK_S = 0.25
SLOWEST_TICK_S = 2.0
WALK_AT_LEAST_EVERY_S = 10.0
MAX_DEPTH = 200
TOO_DEEP = 1 << 62
FEW_ENTRIES = 200
"""So many are looked at faster than a thread is asked to."""
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@cache
def walker() -> ThreadPoolExecutor:
    """The one thread that walks."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk-guard")


class TooMany(Exception):
    """There are more entries than a walk was allowed to look at."""


@dataclass(slots=True, kw_only=True)
class Walk:
    """One count of what lies below some folders."""

    most_entries: int | None = None
    linked: set[tuple[int, int]] = field(default_factory=set)
    entries: int = 0

    def below(self, folder: int, depth: int) -> int:
        """Count below an open folder, and close it. What vanishes while we look counts nothing."""
        total = 0
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    total += self.entry(folder, entry, depth)
        except OSError:
            return total
        finally:
            os.close(folder)
        return total

    def entry(self, folder: int, entry: "os.DirEntry[str]", depth: int) -> int:
        """Count one entry, and what is below it."""
        self.entries += 1
        if self.most_entries is not None and self.entries > self.most_entries:
            raise TooMany
        try:
            found = entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                if depth >= MAX_DEPTH:
                    return TOO_DEEP
                return found.st_blocks * 512 + self.below(
                    os.open(entry.name, FLAGS, dir_fd=folder), depth + 1
                )
        except OSError:
            return 0
        if found.st_nlink > 1:
            if (found.st_dev, found.st_ino) in self.linked:
                return 0
            self.linked.add((found.st_dev, found.st_ino))
        return found.st_blocks * 512


def measure(folders: Iterable[Path], most_entries: int | None = None) -> int:
    """Count the bytes that everything below these folders takes on disk."""
    walk = Walk(most_entries=most_entries)
    total = 0
    for folder in folders:
        try:
            fd = os.open(folder, FLAGS)
        except OSError:
            continue
        total += walk.below(fd, 1)
    return total


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

    async def check(self) -> bool:
        """Walk once more, when the phase has ended: the answer must not depend on when a tick came."""
        if self.over:
            return True
        try:
            used = measure(self.folders, FEW_ENTRIES)
        except TooMany:
            used = await asyncio.get_running_loop().run_in_executor(walker(), measure, self.folders)
        self.over = used > self.limit
        return self.over

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
            self.over = True
            self.on_over()
            return
        self._timer = self._loop.call_later(self._tick_s, self._tick)


def free_bytes(folder: Path) -> int:
    """How much the file system of a folder can still take."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
