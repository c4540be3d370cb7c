"""What goes wrong with a SQLite database, in the words of other files.

Rule: SQLite's codes decide, and the disk itself where a code leaves open whether it is full; never a text.
"""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from labrunner.errors import StoreError
from labrunner.files.durable import say

_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNWRITTEN: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
"""What SQLite also says when a file beside the database can't grow or be made."""
_UNSYNCED: Final = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})
_LEAST_ROOM: Final = 64 * 1024


@contextmanager
def using(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into a StoreError that names the database and the reason."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"using {path}: {tell(path, error)}") from error


def tell(path: Path, error: sqlite3.Error) -> str:
    """Tell SQLite's error as one of a file would be told: it keeps the system's own number to itself."""
    if is_full(path, error):
        return say(OSError(errno.ENOSPC, ""))
    return say(OSError(errno.EIO, "")) if _kind(error) == sqlite3.SQLITE_IOERR else str(error)


def is_broken(error: sqlite3.Error) -> bool:
    """Whether the file is no database, or not a sound one."""
    return _kind(error) in _BROKEN


def is_unsynced(error: sqlite3.Error) -> bool:
    """Whether a sync failed: what it was to keep may be gone, whatever a second one would say."""
    return getattr(error, "sqlite_errorcode", 0) in _UNSYNCED


def is_full(path: Path, error: sqlite3.Error) -> bool:
    """Whether there was no room to write."""
    kind = _kind(error)
    return kind == sqlite3.SQLITE_FULL or (kind in _UNWRITTEN and _has_no_room(path.parent))


def _kind(error: sqlite3.Error) -> int:
    """SQLite's code without its details; 0, which is no error, for one that Python raised itself."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _has_no_room(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST_ROOM or (disk.f_files > 0 and disk.f_favail == 0)
