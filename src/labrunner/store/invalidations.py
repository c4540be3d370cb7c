"""Marking trials as not to be used: nothing is rewritten, a line is added."""

import os
from collections.abc import Sequence
from pathlib import Path

from labrunner.records import canonical
from labrunner.records.invalidation import InvalidationRow
from labrunner.store.durable import open_append, storing, sync_folder
from labrunner.store.layout import RunPaths
from labrunner.store.lock import acquire


def add_invalidations(paths: RunPaths, marks: Sequence[InvalidationRow]) -> None:
    """Append marks, durably, as the owner of the run. Raises RunLocked while it is live."""
    with acquire(paths):
        _make_ready(paths.invalidations)
        file = open_append(paths.invalidations)
        try:
            file.append(b"".join(canonical.encode_line(mark) for mark in marks))
            file.sync()
        finally:
            file.close()


def _make_ready(path: Path) -> None:
    """Make the file if it is not there, and cut what an interrupted writer left of a line."""
    with storing("opening", path):
        path.touch()
        data = path.read_bytes()
        os.truncate(path, data.rfind(b"\n") + 1)
    sync_folder(path.parent)
