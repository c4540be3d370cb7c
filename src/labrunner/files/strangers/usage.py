"""What files take on disk, and how many they are: everything below some folders, each hard link once.

Links are never followed. Standard library only, and little of it: keepers measure too, see
`labrunner.sandbox.processes.warden`. Down to `MAX_DEPTH` the folders on the way are held open; below it the
way back is the one up. Whoever moves folders down there while they are counted, hides something: that counts
as more than anybody may have.
"""

import os
from collections.abc import Iterable

from labrunner.files.descriptors import FOLDER

MAX_DEPTH = 200
HIDDEN = 1 << 62


class TooMany(Exception):
    """There are more entries than a walk was allowed to look at."""


class Walk:
    """One count of what lies below some folders."""

    def __init__(self, most_entries: int | None = None) -> None:
        """Begin with nothing seen."""
        self._most_entries = most_entries
        self._linked: set[tuple[int, int]] = set()
        self._entries = 0
        self.files = 0

    def below(self, folder: int, depth: int) -> int:
        """Count below an open folder, and close it. What vanishes while we look counts nothing."""
        total = 0
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    total += self._entry(folder, entry, depth)
        except OSError:
            return total
        finally:
            os.close(folder)
        return total

    def _entry(self, folder: int, entry: "os.DirEntry[str]", depth: int) -> int:
        """Count one entry, and what is below it."""
        self._count()
        try:
            found = entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                inner = os.open(entry.name, FOLDER, dir_fd=folder)
                below = self._far_below(inner) if depth >= MAX_DEPTH else self.below(inner, depth + 1)
                return found.st_blocks * 512 + below
        except OSError:
            return 0
        if found.st_nlink > 1:
            if (found.st_dev, found.st_ino) in self._linked:
                self.files -= 1
                return 0
            self._linked.add((found.st_dev, found.st_ino))
        return found.st_blocks * 512

    def _count(self) -> None:
        self.files += 1
        self._entries += 1
        if self._most_entries is not None and self._entries > self._most_entries:
            raise TooMany

    def _far_below(self, folder: int) -> int:
        """Count below an open folder with one descriptor, however deep it goes, and close it."""
        here, total = folder, 0
        try:
            levels = [self._level(here)]
            while True:
                place, folders, taken = levels[-1]
                total, levels[-1] = total + taken, (place, folders, 0)
                if folders:
                    inner = os.open(folders.pop(), FOLDER, dir_fd=here)
                    os.close(here)
                    here = inner
                    levels.append(self._level(here))
                    continue
                levels.pop()
                if not levels:
                    return total
                outer = os.open("..", FOLDER, dir_fd=here)
                os.close(here)
                here = outer
                if place_of(here) != levels[-1][0]:
                    return HIDDEN
        except OSError:
            return total
        finally:
            os.close(here)

    def _level(self, folder: int) -> "tuple[tuple[int, int], list[str], int]":
        """One folder: where it is, its folders, and what everything else in it takes."""
        folders, taken = [], 0
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                    self._count()
                    taken += entry.stat(follow_symlinks=False).st_blocks * 512
                else:
                    taken += self._entry(folder, entry, 0)
        return place_of(folder), folders, taken


def place_of(folder: int) -> tuple[int, int]:
    """What tells an open folder from all others."""
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def count(folders: "Iterable[str | os.PathLike[str]]", most_entries: int | None = None) -> tuple[int, int]:
    """Count the bytes that everything below these folders takes on disk, and the files. Raises TooMany."""
    walk = Walk(most_entries)
    total = 0
    for folder in folders:
        try:
            fd = os.open(folder, FOLDER)
        except OSError:
            continue
        total += walk.below(fd, 1)
    return total, walk.files


def measure(folders: "Iterable[str | os.PathLike[str]]", most_entries: int | None = None) -> int:
    """Count the bytes alone. Raises TooMany."""
    return count(folders, most_entries)[0]
