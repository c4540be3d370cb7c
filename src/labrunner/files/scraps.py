"""Folders that a command needs for a moment: gone with it, and known as nobody's if it was killed.

Their owner holds the kernel's lock on the folder itself, which ends with its process.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import FOLDER

PROBE: Final = ".lab-probe-"
SMOKE: Final = ".lab-smoke-"
SHELL: Final = ".lab-shell-"
RECOVERY: Final = ".recovering-"
LAUNCH: Final = "lab-launch-"


@contextmanager
def scrap_folder(prefix: str, place: Path | None = None) -> Iterator[Path]:
    """A folder for a moment, in the usual place or another."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as name, hold(Path(name)):
        yield Path(name)


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Say that a folder is somebody's, for as long as this process is inside here."""
    fd = os.open(folder, FOLDER)
    try:
        with suppress(OSError):  # a file system without locks: then it is told by nobody
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def find_scraps(place: Path) -> Iterator[Path]:
    """Folders in a place, and in the system's for such things, that killed commands of this user left."""
    for prefix in (PROBE, SMOKE, SHELL, RECOVERY):
        yield from _abandoned(place.glob(f"{prefix}*"))
    yield from _abandoned(Path(tempfile.gettempdir()).glob(f"{LAUNCH}*"))


def _abandoned(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in sorted(folders):
        if is_abandoned(folder):
            yield folder


def is_abandoned(folder: Path) -> bool:
    """Whether a folder is this user's, and no process holds it."""
    try:
        fd = os.open(folder, FOLDER)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(fd).st_uid == os.geteuid()
    except OSError:
        return False
    finally:
        os.close(fd)
