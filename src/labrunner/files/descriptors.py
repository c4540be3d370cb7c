"""How files are opened where somebody else may have put anything there, written whole, and made durable.

Rules: what goes wrong is an OSError; whoever calls says what that means. Standard library only: processes
beside the runner use it too.
"""

import os
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A folder, itself: never where a link leads."""
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A file, itself: never where a link leads, and without waiting for anything, such as a FIFO's writer."""
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
"""A file to be written from its beginning."""


def sync(fd: int) -> None:
    """Have what was written to a file or folder survive a power cut."""
    os.fsync(fd)


def sync_path(path: "str | os.PathLike[str]", *, follows: bool = False) -> None:
    """The same for a file or folder by its name; `follows` a link only where nobody else makes any."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW))
    try:
        sync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it: a disk that gets full takes a part first, and refuses the rest."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def write_all_at(fd: int, data: bytes, at: int) -> None:
    """The same, at an offset."""
    left = memoryview(data)
    while left:
        written = os.pwrite(fd, left, at)
        left, at = left[written:], at + written


def write_file(
    path: "str | os.PathLike[str]", data: bytes, *, rights: int = 0o644, is_synced: bool = True
) -> None:
    """Write a file that nobody else looks at yet; its name is durable once its folder is synced."""
    fd = os.open(path, NEW_FILE, rights)
    try:
        write_all(fd, data)
        if is_synced:
            sync(fd)
    finally:
        os.close(fd)


def rewrite(fd: int, data: bytes) -> None:
    """Make an open file hold exactly these bytes, durably."""
    write_all_at(fd, data, 0)
    os.ftruncate(fd, len(data))
    sync(fd)
