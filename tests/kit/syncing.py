"""What was made durable. The kernel can't be asked afterwards, so the calls to it are listened to."""

import os
from collections.abc import Callable

import pytest


def listen(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Paths of files and folders that are synced from now on; they really are."""
    heard: set[str] = set()

    def noting(really: Callable[[int], None]) -> Callable[[int], None]:
        def note_and_sync(fd: int) -> None:
            heard.add(os.readlink(f"/proc/self/fd/{fd}"))
            really(fd)

        return note_and_sync

    # See above: there is no other way to know.
    monkeypatch.setattr(os, "fsync", noting(os.fsync))
    monkeypatch.setattr(os, "fdatasync", noting(os.fdatasync))
    return heard
