"""Room that a run's owner keeps back on the disk, so that what is in hand can be written when it is full."""

import os
from pathlib import Path
from typing import Final

from labrunner.files.durable import storing

SIZE: Final = 1 << 20
"""Some hundreds of trials' rows."""


class Reserve:
    """A file that holds nothing but its place."""

    def __init__(self, path: Path) -> None:
        """Take what `hold` made."""
        self.is_spent = False
        self._path = path

    def spend(self) -> bool:
        """Give the room free; False when that was done before."""
        if self.is_spent:
            return False
        self.is_spent = True
        self.drop()
        return True

    def drop(self) -> None:
        """Leave nothing behind."""
        with storing("removing", self._path):
            self._path.unlink(missing_ok=True)


def hold(path: Path) -> Reserve:
    """Take the room, or what a dead owner took. Raises StoreError when there is none."""
    with storing("keeping room for", path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, SIZE)
            else:  # macOS
                os.pwrite(fd, bytes(SIZE), 0)
        finally:
            os.close(fd)
    return Reserve(path)
