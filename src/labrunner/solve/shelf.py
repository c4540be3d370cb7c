"""Where transcripts become files of their attempts, durably: all that wait at a moment in one go.

Rule: `put` returns when the file and the folders on the way to it are on stable storage.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.records import canonical
from labrunner.records.completion import FileRef
from labrunner.store.durable import sync_folder
from labrunner.trial.preparation import set_aside

TRANSCRIPT: Final = "transcript.jsonl"
_HOW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class _Item:
    folder: Path
    data: bytes
    is_new: bool
    is_stored: bool = False


class Shelf:
    """Keeps transcripts of one run. Used from the home loop."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._waiting: list[_Item] = []
        self._turn = asyncio.Lock()

    async def put(self, folder: Path, data: bytes, *, is_new: bool) -> FileRef:
        """Store an attempt's transcript in its folder.

        `is_new`: nobody has made the folder yet; one that a cut-off try left is set aside.
        """
        item = _Item(folder, data, is_new)
        self._waiting.append(item)
        async with self._turn:
            if not item.is_stored:
                await self._store()
        return FileRef(path=TRANSCRIPT, digest=canonical.digest_bytes(data), size=len(data))

    async def _store(self) -> None:
        """Store everything that waits, for whoever waits."""
        batch, self._waiting = self._waiting, []
        try:
            await asyncio.to_thread(_store, batch)
        finally:
            # Whoever is not stored, because we were cancelled or the disk failed, tries again himself.
            self._waiting += [item for item in batch if not item.is_stored]


def leave(folder: Path, data: bytes) -> None:
    """Leave the transcript of an attempt that is being ended: evidence, not a result, so not synced."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRANSCRIPT).write_bytes(data)


def _store(batch: Sequence[_Item]) -> None:
    with SandboxFailed.during("transcript", "storing transcripts"):
        opened: list[int] = []
        try:
            for item in batch:
                opened.append(_write(item))  # noqa: PERF401 - what was opened before a failure is closed
            for fd in opened:
                os.fsync(fd)
        finally:
            for fd in opened:
                os.close(fd)
        for folder in _folders(batch):
            sync_folder(folder)
        for item in batch:
            item.is_stored = True


def _write(item: _Item) -> int:
    if item.is_new:
        set_aside(item.folder)
        item.folder.mkdir(parents=True)
        item.is_new = False
    fd = os.open(item.folder / TRANSCRIPT, _HOW, 0o600)
    view = memoryview(item.data)
    while view:
        view = view[os.write(fd, view) :]
    return fd


def _folders(batch: Sequence[_Item]) -> list[Path]:
    """Every folder that got a new name, the innermost first, each once."""
    inner = dict.fromkeys(item.folder for item in batch)
    trials = dict.fromkeys(folder.parent for folder in inner)
    runs = dict.fromkeys(folder.parent for folder in trials)
    return [*inner, *trials, *runs]
