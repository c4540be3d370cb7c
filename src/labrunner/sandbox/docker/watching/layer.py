"""What a container changed outside its mounts, read from its own layer, where this host lets us look.

The engine gives such a list, too, but on some hosts it compares every file of the image for it: seconds, for
a large one; and it goes by sizes and times, which whoever is root inside can set back. A layer of overlay2
holds whatever was touched, and a device without number for what was removed. What was touched and is still as
the image has it, to the byte, is not changed.
"""

import filecmp
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import FOLDER
from labrunner.files.strangers.usage import MAX_DEPTH

ROOT: Final = ""
OPAQUE: Final = "overlay.opaque"
"""The mark of a folder that was made anew: nothing of the image is in it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A container's layer, over those of its image."""

    upper: Path
    lower: tuple[Path, ...] = ()
    """Topmost first."""

    @property
    def can_be_read(self) -> bool:
        """Whether this user may look into it."""
        return os.access(self.upper, os.R_OK | os.X_OK)

    def changes(self) -> tuple[str, ...]:
        """Every path that differs from the image, and the folders that it lies in. Raises OSError."""
        found = set[str]()
        for changed in self._below(os.open(self.upper, FOLDER), ROOT, 1):
            path = changed
            while path and path not in found:
                found.add(path)
                path = path.rpartition("/")[0]
        return tuple(sorted(os.fsencode(path).decode(errors="replace") for path in found))

    def _below(self, folder: int, place: str, depth: int) -> Iterator[str]:
        """Paths below an open folder, which is closed. Trees too deep for anybody honest end at a folder."""
        try:
            with os.scandir(folder) as listed:
                entries = list(listed)
            for entry in entries:
                path, now = f"{place}/{entry.name}", entry.stat(follow_symlinks=False)
                if not self._is_as_before(path, now):
                    yield path
                if stat.S_ISDIR(now.st_mode) and depth < MAX_DEPTH:
                    yield from self._below(os.open(entry.name, FOLDER, dir_fd=folder), path, depth + 1)
        finally:
            os.close(folder)

    def _is_as_before(self, path: str, now: os.stat_result) -> bool:
        """Whether something is in the layer just as the image has it."""
        for layer in self.lower:
            try:
                before = os.lstat(f"{layer}{path}")
                if _look(before) != _look(now):
                    return False
                if stat.S_ISDIR(now.st_mode):
                    return not is_opaque(f"{self.upper}{path}")
                is_file = stat.S_ISREG(now.st_mode)
                return is_file and filecmp.cmp(f"{layer}{path}", f"{self.upper}{path}", shallow=False)
            except OSError:
                continue
        return False


def is_opaque(folder: str) -> bool:
    """Whether a folder of a layer was made anew, whoever mounted the layer."""
    for who in ("trusted", "user"):
        with suppress(OSError):
            return os.getxattr(folder, f"{who}.{OPAQUE}", follow_symlinks=False) == b"y"
    return False


def is_marked(place: str, marks: Collection[str]) -> bool:
    """Whether something of a layer has one of these marks of the kernel's, whoever mounted the layer."""
    found: list[str] = []
    with suppress(OSError):
        found = os.listxattr(place, follow_symlinks=False)
    return any(name.partition(".")[2] in marks for name in found)


def _look(facts: os.stat_result) -> tuple[int, ...]:
    """What a change shows in. Of a folder, its times and size tell only that something came or went."""
    rights = (facts.st_mode, facts.st_uid, facts.st_gid)
    return rights if stat.S_ISDIR(facts.st_mode) else (*rights, facts.st_size, facts.st_mtime_ns)
