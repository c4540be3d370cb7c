"""What is lost with a buffer that is gone or can't be read: never anything committed."""

from labrunner.errors import StoreError
from labrunner.store.buffer import snapshot
from labrunner.store.layout import RunPaths
from labrunner.store.lock import is_owned
from labrunner.store.record import read_status


def describe_loss(paths: RunPaths, problem: str) -> str | None:
    """Say what such a buffer held, by the run's last status; None when nothing can be missing."""
    status = read_status(paths)
    if status is None or (status.status != "started" and status.counts.buffered == 0):
        return None
    return (
        f"the buffer was lost ({problem}): committed results are whole; at {status.updated_at} it held "
        f"{status.counts.buffered} finished results that were not committed: their slots are owed again"
    )


def find_loss(paths: RunPaths) -> str | None:
    """Look whether finished results of a run that nobody owns are lost with its buffer."""
    if is_owned(paths):
        return None
    if not paths.buffer.exists():
        return describe_loss(paths, "it is gone")
    try:
        with snapshot(paths.buffer):
            return None
    except StoreError as error:
        return describe_loss(paths, f"it can't be read: {error}")
