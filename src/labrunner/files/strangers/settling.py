"""Making durable what an agent left, for a grader that may come only after a power cut.

Files that were not synced can be empty then, and an honest agent would be graded as one that did nothing.
Each file is synced alone, because a file system's other users need not wait for us; where there are too many,
or one can't be reached by its path or opened by us, the whole file system is. Settling does not fail for the
rights that an agent took away, from its folders neither.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import FILE, FOLDER, sync

MOST_ENTRIES: Final = 1000


class TooMuchToSync(Exception):
    """There are more entries than are worth a sync each, or some that we can't come to."""


def settle(folders: Iterable[Path], most: int = MOST_ENTRIES) -> None:
    """Sync everything below these folders. Links are not followed; what is not there is left out."""
    for folder in folders:
        try:
            for path, how in list(_find(folder, most)):
                _sync(path, how)
        except TooMuchToSync:
            sync_file_system(folder)
            return


def _find(folder: Path, most: int) -> Iterator[tuple[str, int]]:
    waiting = [str(folder)]
    left = most
    while waiting:
        here = waiting.pop()
        yield here, FOLDER
        try:
            folders, files, count = _read(here)
        except FileNotFoundError:
            continue
        except OSError as error:  # its path is too long, or it is not ours
            raise TooMuchToSync from error
        left -= count
        if left < 0:
            raise TooMuchToSync
        waiting += folders
        yield from ((path, FILE) for path in files)


def _read(folder: str) -> tuple[list[str], list[str], int]:
    """The folders and the files in a folder, and how many entries it has."""
    with os.scandir(folder) as found:
        entries = list(found)
    folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    files = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
    return folders, files, len(entries)


def _sync(path: str, how: int) -> None:
    try:
        fd = os.open(path, how)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TooMuchToSync from error
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync_file_system(folder: Path) -> None:
    """Sync the whole file system that a folder lies on."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = _open_nearest(folder) if hasattr(libc, "syncfs") else None
    if fd is None:
        os.sync()
        return
    try:
        if libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(fd)


def _open_nearest(folder: Path) -> int | None:
    """Open a folder, or one above it on the same file system: it may be closed to us. None when all are."""
    device = os.lstat(folder).st_dev
    for place in (folder, *folder.parents):
        try:
            fd = os.open(place, FOLDER)
        except PermissionError:
            continue
        if os.fstat(fd).st_dev == device:
            return fd
        os.close(fd)
        return None
    return None
