"""Who owns a run: a kernel lock on the file `lock`, freed by the kernel when its owner dies.

Rules: the file is made with the run, written in place, never renamed or removed; the text inside says who
the owner is and in which boot of the machine, and is synced; the kernel's lock alone decides. It belongs to
an open file, so it is closed on exec, and a forked child gives its copy back at once: nobody but the owner
can keep a run locked.
"""

import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import RunLocked, StoreError
from labrunner.files.descriptors import rewrite
from labrunner.files.durable import storing
from labrunner.files.filesystem import flock
from labrunner.files.host import boot_id
from labrunner.records.encoding import canonical
from labrunner.records.run import LockNote
from labrunner.store.layout import RunPaths

_PATIENCE_S: Final = 0.5
_PAUSE_S: Final = 0.01
_NOTE_BYTES: Final = 4096

_held: Final[set[int]] = set()


def _give_back_in_child() -> None:
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_give_back_in_child)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLock:
    """Proof that this process owns the run."""

    paths: RunPaths
    last_owner: LockNote | None
    """Who held it before, as far as the text tells."""


@contextmanager
def acquire(paths: RunPaths) -> Iterator[RunLock]:
    """Own the run until the context is left. Raises RunLocked when somebody else does."""
    fd = _open(paths.lock, os.O_RDWR)
    _held.add(fd)
    try:
        _lock(paths, fd)
        last_owner = _read_note(fd)
        _write_note(paths.lock, fd)
        yield RunLock(paths=paths, last_owner=last_owner)
    finally:
        _held.discard(fd)
        os.close(fd)


def refuse_owned(paths: RunPaths) -> None:
    """Raise RunLocked when somebody owns the run, without owning it: before work that would be in vain."""
    fd = _open(paths.lock, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while _is_locked(fd):
            if time.monotonic() > deadline:
                raise RunLocked(_tell_owner(paths, fd))
            threading.Event().wait(_PAUSE_S)
    finally:
        os.close(fd)


def is_owned(paths: RunPaths) -> bool:
    """Whether a process owns the run right now. Never waits, and disturbs nobody."""
    fd = _open(paths.lock, os.O_RDONLY)
    try:
        return _is_locked(fd)
    finally:
        os.close(fd)


def holder(paths: RunPaths) -> LockNote | None:
    """Who owns the run right now; None when nobody does, or the text does not tell."""
    fd = _open(paths.lock, os.O_RDONLY)
    try:
        return _read_note(fd) if _is_locked(fd) else None
    finally:
        os.close(fd)


def last_owner(paths: RunPaths) -> LockNote | None:
    """Who owns the run, or owned it last; None when the text does not tell."""
    fd = _open(paths.lock, os.O_RDONLY)
    try:
        return _read_note(fd)
    finally:
        os.close(fd)


def _open(path: Path, how: int) -> int:
    try:
        return os.open(path, how | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise StoreError(
            f"opening {path}: the run's lock file is gone; if surely no process uses this run, "
            "create an empty file with that name"
        ) from error
    except OSError as error:
        raise StoreError(f"opening {path}: {error.strerror}") from error


def _lock(paths: RunPaths, fd: int) -> None:
    # A reader's probe holds the lock, shared, for some microseconds: hence the patience.
    deadline = time.monotonic() + _PATIENCE_S
    while not _try_lock(fd):
        if time.monotonic() > deadline:
            raise RunLocked(_tell_owner(paths, fd))
        threading.Event().wait(_PAUSE_S)
    if not _is_same_file(paths.lock, fd):
        raise StoreError(
            f"locking {paths.lock}: the file was replaced by another one, so it protects nothing; "
            "find out what removes or copies files in the run's directory, then try again"
        )


def _try_lock(fd: int) -> bool:
    return flock(fd, fcntl.LOCK_EX)


def _is_locked(fd: int) -> bool:
    if not flock(fd, fcntl.LOCK_SH):
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _is_same_file(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _tell_owner(paths: RunPaths, fd: int) -> str:
    return f"run {paths.root.name} is owned by {_describe(_read_note(fd))}"


def _describe(note: LockNote | None) -> str:
    if note is None:
        return "another process, which has not said who it is"
    return f"process {note.pid} on {note.host} since {note.since}"


def _read_note(fd: int) -> LockNote | None:
    try:
        return msgspec.json.decode(os.pread(fd, _NOTE_BYTES, 0), type=LockNote)
    except ValueError:
        return None


def _write_note(path: Path, fd: int) -> None:
    note = LockNote(
        pid=os.getpid(),
        host=socket.gethostname(),
        boot_id=boot_id(),
        since=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    with storing("writing", path):
        # Durable: after a power cut it tells that the machine was started again.
        rewrite(fd, canonical.encode_line(note))
