"""What the runner itself saw at an attempt's barrier, kept beside its folders for whoever adopts it.

Written behind the barrier, synced, into a folder that nothing inside the container can write.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import SandboxFailed
from labrunner.files.descriptors import sync
from labrunner.sandbox.door import AgentRun, AttemptFolders

FILE: Final = "barrier.json"


class BarrierRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How setup and agent ended, and how often the container has been started since."""

    run: AgentRun
    restarts: int = 0


def read_record(folders: AttemptFolders) -> BarrierRecord | None:
    """Read the record; None when the barrier was not reached, or its writing was cut off."""
    try:
        return msgspec.json.decode((folders.root / FILE).read_bytes(), type=BarrierRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise SandboxFailed("record", f"reading {folders.root / FILE}: {error}") from error


def write_record(folders: AttemptFolders, record: BarrierRecord) -> None:
    """Write the record so that it outlives a power cut."""
    with SandboxFailed.during("record", f"writing {folders.root / FILE}"):
        write_synced(folders.root, FILE, msgspec.json.encode(record))


def write_whole(folder: Path, name: str, data: bytes) -> None:
    """Put a file in place, whole or not at all; a power cut may take it."""
    new = folder / f"{name}.new"
    new.write_bytes(data)
    new.rename(folder / name)


def write_synced(folder: Path, name: str, data: bytes) -> None:
    """Put a file in place, whole or not at all, and durably."""
    new = folder / f"{name}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        sync(fd)
    finally:
        os.close(fd)
    new.rename(folder / name)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(folder_fd)
    finally:
        os.close(folder_fd)
