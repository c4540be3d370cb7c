"""Writing so that it is still there after a power cut.

Rules: a write counts once it is synced; any file that is not only appended to is replaced whole, by a
synced temporary name in the same folder, a rename, and a sync of the folder. A write or sync that fails
is a `StoreError` and is never tried again: after a failed sync the kernel may have dropped the data and
would call the next one a success.
"""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from labrunner.errors import OutOfFiles, StoreError
from labrunner.files.descriptors import sync, sync_path, write_all, write_file
from labrunner.files.points import reach

_WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EIO: "the disk reported an input/output error",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.EMFILE: "this process has too many files open",
        errno.EFBIG: "the file would exceed the size limit",
    }
)
CHUNK: Final = 1 << 20
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@contextmanager
def storing(doing: str, path: Path | str) -> Iterator[None]:
    """Turn an OSError into a StoreError that names what was being done, the file and the reason."""
    try:
        yield
    except OSError as error:
        kind = OutOfFiles if OutOfFiles.says(error) else StoreError
        raise kind(f"{doing} {path}: {say(error)}") from error


def say(error: OSError) -> str:
    """Tell an operating system's error in words."""
    return _WORDS.get(error.errno or 0) or (error.strerror or str(error)).lower()


class AppendFile:
    """A file that only grows, and knows its size. One owner, one thread."""

    def __init__(self, path: Path, fd: int, size: int, spend: Callable[[], bool]) -> None:
        """Take over an open descriptor; see `open_append`."""
        self.path = path
        self.size = size
        self._fd = fd
        self._spend = spend

    def append(self, data: bytes) -> None:
        """Append; durable only after `sync`."""
        with storing("writing to", self.path):
            try:
                write_all(self._fd, data)
            except OSError as error:
                if error.errno != errno.ENOSPC or not self._spend():
                    raise
                write_all(self._fd, data[os.fstat(self._fd).st_size - self.size :])
        self.size += len(data)

    def sync(self) -> None:
        """Make what was appended durable."""
        with storing("syncing", self.path):
            os.fdatasync(self._fd)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


def open_append(path: Path, spend: Callable[[], bool] = lambda: False) -> AppendFile:
    """Open an existing file for appending; `spend` makes room on a full disk, if it can."""
    with storing("opening", path):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        return AppendFile(path, fd, os.fstat(fd).st_size, spend)


def replace(path: Path, data: bytes, *, point: str) -> None:
    """Replace a file whole, or not at all."""
    with storing("writing", path):
        put_whole(path, data, passed=lambda step: reach(f"{point}.{step}"))


def put_whole(
    path: Path, data: bytes, *, is_synced: bool = True, passed: Callable[[str], None] = lambda _: None
) -> None:
    """Put a file in place, whole or not at all; one that is not synced may be lost in a power cut.

    `passed` hears which step has been made. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    write_file(temporary, data, is_synced=is_synced)
    passed("written")
    temporary.rename(path)
    passed("renamed")
    if is_synced:
        sync_path(path.parent, follows=True)
    passed("done")


def sync_folder(path: Path | str) -> None:
    """Make a folder's names durable."""
    with storing("syncing folder", path):
        sync_path(path, follows=True)


def exchange(one: Path, other: Path) -> bool:
    """Let two names swap what they stand for, in one step; False where the file system can't."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS}:
        return False
    raise StoreError(f"exchanging {one} and {other}: {say(OSError(number, os.strerror(number)))}")


def cut(path: Path, size: int) -> None:
    """Shorten a file. Durable after `write_again`."""
    with storing("cutting", path):
        os.truncate(path, size)


def write_again(path: Path, start: int) -> None:
    """Write a file's bytes from `start` on once more, in place, and sync them.

    What a dead process left may be only in the page cache, even marked as written after a failed sync:
    only pages that are made dirty again are sure to reach the disk.
    """
    with storing("writing again", path):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            at = start
            while data := os.pread(fd, CHUNK, at):
                at += os.pwrite(fd, data, at)
            reach("open.rewritten")
            sync(fd)
        finally:
            os.close(fd)
