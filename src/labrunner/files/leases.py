"""Folders that many use and one may take away, and work that one does while others wait for it.

Users of a folder share the kernel's lock on it; who would take it away asks for the lock alone. A lock ends
with its process, however that ends. Where a file system has no locks, nobody is kept off.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from labrunner.files.descriptors import FOLDER


@contextmanager
def sharing(folders: Iterable[Path]) -> Iterator[None]:
    """Use folders, of those that are there: nobody has them alone meanwhile."""
    with ExitStack() as stack:
        for folder in folders:
            try:
                fd = os.open(folder, FOLDER)
            except OSError:
                continue  # told by whoever needs what should lie there
            stack.callback(os.close, fd)
            _lock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield


@contextmanager
def having_alone(folder: Path) -> Iterator[bool]:
    """Have a folder alone, as far as others ask: False when somebody uses it."""
    fd = os.open(folder, FOLDER)
    try:
        yield _lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


@contextmanager
def taking_turns(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Do something that only one may do at a time; who comes second is told, and waits."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB):
            on_wait()
            _lock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, how: int) -> bool:
    """Whether the lock is ours, or there are none to be had."""
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
