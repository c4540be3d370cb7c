"""Marking trials as not to be used: nothing is rewritten, a line is added."""

from collections.abc import Sequence

from labrunner.records import canonical
from labrunner.records.invalidation import InvalidationRow
from labrunner.store.durable import open_append
from labrunner.store.layout import RunPaths
from labrunner.store.lock import acquire


def add_invalidations(paths: RunPaths, marks: Sequence[InvalidationRow]) -> None:
    """Append marks, durably, as the owner of the run. Raises RunLocked while it is live."""
    with acquire(paths):
        file = open_append(paths.invalidations)
        try:
            file.append(b"".join(canonical.encode_line(mark) for mark in marks))
            file.sync()
        finally:
            file.close()
