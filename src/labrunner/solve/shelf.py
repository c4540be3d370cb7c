"""Where transcripts become files of their attempts, durably.

Rule: once `store` has returned, the file and the folders on the way to it are on stable storage. Many are
stored at once, each in a thread of its own: syncs that wait together are carried out together.
"""

import os
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.records import canonical
from labrunner.records.completion import FileRef
from labrunner.store.durable import sync_folder
from labrunner.store.transcripts import TRANSCRIPT
from labrunner.trial.preparation import set_aside

_HOW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def store(folder: Path, data: bytes, *, is_new: bool) -> FileRef:
    """Store an attempt's transcript in its folder.

    `is_new`: nobody has made the folder yet; one that a cut-off try left is set aside.
    """
    with SandboxFailed.during("transcript", f"storing the transcript in {folder}"):
        if is_new:
            _make(folder)
        fd = os.open(f"{folder}/{TRANSCRIPT}", _HOW, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        for each in (folder, folder.parent, folder.parent.parent):
            sync_folder(each)
    return FileRef(path=TRANSCRIPT, digest=canonical.digest_bytes(data), size=len(data))


def leave(folder: Path, data: bytes) -> None:
    """Leave the transcript of an attempt that is being ended: evidence, not a result, so not synced."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRANSCRIPT).write_bytes(data)


def _make(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        set_aside(folder)
        folder.mkdir()
