"""What files take on disk, and how many they are: everything below some folders, each hard link once.

Links are never followed.
Standard library only, and little of it: keepers measure too, see `labrunner.sandbox.warden`. A tree deeper
than `MAX_DEPTH` counts as more than anybody may have: nobody honest builds one, and it could hide anything.
"""

import os
from collections.abc import Iterable

MAX_DEPTH = 200
TOO_DEEP = 1 << 62
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        self._entries += 1
        if self._most_entries is not None and self._entries > self._most_entries:
            raise TooMany
        try:
            found = entry.stat(follow_symlinks=False)
            self.files += 1
            if entry.is_dir(follow_symlinks=False):
                if depth >= MAX_DEPTH:
                    return TOO_DEEP
                return found.st_blocks * 512 + self.below(
                    os.open(entry.name, FLAGS, dir_fd=folder), depth + 1
                )
        except OSError:
            return 0
        if found.st_nlink > 1:
            if (found.st_dev, found.st_ino) in self._linked:
                self.files -= 1
                return 0
            self._linked.add((found.st_dev, found.st_ino))
        return found.st_blocks * 512


def count(folders: "Iterable[str | os.PathLike[str]]", most_entries: int | None = None) -> tuple[int, int]:
    """Count the bytes that everything below these folders takes on disk, and the files. Raises TooMany."""
    walk = Walk(most_entries)
    total = 0
    for folder in folders:
        try:
            fd = os.open(folder, FLAGS)
        except OSError:
            continue
        total += walk.below(fd, 1)
    return total, walk.files


def measure(folders: "Iterable[str | os.PathLike[str]]", most_entries: int | None = None) -> int:
    """Count the bytes alone. Raises TooMany."""
    return count(folders, most_entries)[0]
