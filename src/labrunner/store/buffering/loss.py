"""Finished results that are lost with a buffer: gone, unreadable, or cut. Never anything committed.

Two witnesses tell what it held: `buffered.jsonl`, by name, and the counts of `status.json`. Both may know of
less than there was, never of more.
"""

from collections.abc import Collection
from typing import Final

from labrunner.errors import StoreError
from labrunner.records.run import StatusRecord
from labrunner.store.buffering.buffer import snapshot
from labrunner.store.buffering.buffered import read_buffered
from labrunner.store.layout import RunPaths
from labrunner.store.rows.journal import read_last_line
from labrunner.store.rows.lock import is_owned
from labrunner.store.rows.single_records import read_run, read_status

_NAMED: Final = 20


def describe_loss(
    paths: RunPaths, run_id: str, committed: int, present: Collection[int], problem: str | None
) -> str | None:
    """Say what a buffer held that is not in it any more; None when nothing is known to be missing.

    `problem` is what is wrong with the buffer as a whole, if anything is.
    """
    status, known = read_status(paths), read_buffered(paths, run_id)
    named = [trial for idx, trial in sorted(known.items()) if idx >= committed and idx not in present]
    by_count = _count_missing(status, committed) - len(present) if status else 0
    count = max(len(named), by_count)
    if count <= 0:
        is_over = status is not None and status.status != "started"
        if problem is None or is_over:
            return None
        told = "it is not known to have held finished results"
    else:
        told = f"{count} finished results that were not committed are lost{_name(named, count)}: owed again"
    return f"the buffer was lost ({problem or 'it was cut or damaged'}): committed results are whole; {told}"


def find_loss(paths: RunPaths) -> str | None:
    """Look whether finished results of a run that nobody owns are lost with its buffer."""
    if is_owned(paths):
        return None
    run_id = read_run(paths).run_id
    try:
        last = read_last_line(paths.commits, run_id)
    except StoreError:
        return None  # with a damaged journal nobody knows what was not committed
    committed = 0 if last is None else last.schedule_idx + 1
    present, problem = _look(paths, committed)
    return describe_loss(paths, run_id, committed, present, problem)


def _count_missing(status: StatusRecord, committed: int) -> int:
    """How many of the results that the status counted in the buffer were not committed since.

    A journal that has lost lines is another matter: that it is shorter says nothing of the buffer.
    """
    counts = status.counts
    return counts.buffered - max(0, committed - counts.committed)


def _look(paths: RunPaths, committed: int) -> tuple[set[int], str | None]:
    if not paths.buffer.exists():
        return set(), "it is gone"
    try:
        with snapshot(paths.buffer) as waiting:
            return {kept.schedule_idx for kept in waiting if kept.schedule_idx >= committed}, None
    except StoreError as error:
        return set(), f"it can't be read: {error}"


def _name(named: list[str], count: int) -> str:
    if not named:
        return ""
    more = count - min(len(named), _NAMED)
    return f" ({', '.join(named[:_NAMED])}{f' and {more} more' if more else ''})"
