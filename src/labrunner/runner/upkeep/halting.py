"""Asking a live run, from another process, to stop in order."""

import os
import signal
import socket
from pathlib import Path

from labrunner.errors import InputError
from labrunner.files.host import boot_id
from labrunner.records.run import LockNote
from labrunner.store.layout import RunPaths
from labrunner.store.rows.lock import holder, is_owned


def stop_run(paths: RunPaths, *, hurry: bool = False) -> LockNote | None:
    """Send the owner of a run the signal to stop; None when nobody owns it.

    The text in the lock file only informs: a process is signalled only if it has this very lock file open.
    """
    if not is_owned(paths):
        return None
    note = holder(paths)
    if note is None:
        raise InputError(str(paths.lock), "somebody owns the run, but the file does not say who")
    if note.host != socket.gethostname() or (note.boot_id and note.boot_id != boot_id()):
        raise InputError(
            str(paths.root), f"the run is owned by process {note.pid} on {note.host}: stop it there"
        )
    if not _has_open(note.pid, paths.lock):
        raise InputError(
            str(paths.root), f"process {note.pid} can't be seen to own the run; is it in another container?"
        )
    os.kill(note.pid, signal.SIGTERM)
    if hurry:
        # Another signal: a second one of the same kind would merge with the first. Not SIGHUP: nohup deafens.
        os.kill(note.pid, signal.SIGINT)
    return note


def _has_open(pid: int, lock: Path) -> bool:
    wanted = lock.stat()
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    return any(_is_same(entry, wanted) for entry in entries)


def _is_same(entry: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(), wanted)
    except OSError:
        return False
