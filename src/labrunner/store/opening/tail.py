"""A run's row files against its journal: whether it vouches for every row, and what lies beyond its end.

Everything here only reads. `labrunner.store.opening.opening` does what follows from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import storing
from labrunner.store.layout import RunPaths
from labrunner.store.rows.journal import GROUP_LIMIT, Journal, iter_scanned
from labrunner.store.rows.rowfiles import open_rows, split_lines
from labrunner.store.rows.timings import find_wrong_timing
from labrunner.store.rows.witness import find_orphans
from labrunner.store.rows.written import open_file, size_of

_STEP: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The end of one file: keep `keep` bytes; those from `unsure` on may not have reached the disk."""

    path: Path
    size: int
    keep: int
    unsure: int


class _Owner(msgspec.Struct):
    run_id: str


class _Numbered(msgspec.Struct):
    schedule_idx: int
    ids: _Owner


_numbered: Final = msgspec.json.Decoder(_Numbered)


def examine(paths: RunPaths, run_id: str, journal: Journal) -> tuple[Tail, ...]:
    """Compare every file's end with the journal. Raises DamagedRun when they contradict each other.

    The rows come first and the journal last: the order in which they must be made durable.
    """
    starts = journal.recent[0].starts if journal.recent else journal.ends
    tails = (
        _examine_rows(paths.predictions, starts.predictions, journal.ends.predictions),
        _examine_rows(paths.scores, starts.scores, journal.ends.scores),
        _examine_rows(paths.trials, starts.trials, journal.ends.trials),
        _examine_timings(paths.timings, run_id, journal.committed),
        Tail(
            path=paths.commits,
            size=journal.good_bytes + journal.torn_bytes,
            keep=journal.good_bytes,
            unsure=journal.recent[0].offset if journal.recent else 0,
        ),
    )
    if (problem := find_orphans(paths, journal.ends.trials)) is not None:
        raise DamagedRun(f"{paths.commits}: {problem}; nothing was changed")
    _check_rows(paths, run_id, journal)
    return tails


def _check_rows(paths: RunPaths, run_id: str, journal: Journal) -> None:
    """Hold every committed row to its digest or seal, before anything is spent on a run that is damaged."""
    with open_rows(paths) as rows, open_file(paths.timings) as timings:
        for slot in iter_scanned(paths.commits, run_id, journal.good_bytes):
            rows.check(slot)
            if (problem := find_wrong_timing(timings.readline(), slot.line)) is not None:
                raise DamagedRun(
                    f"{paths.timings}: line {slot.line.schedule_idx + 1} {problem}; nothing was changed"
                )


def _examine_rows(path: Path, start: int, end: int) -> Tail:
    size = size_of(path)
    if size < end:
        raise DamagedRun(f"{path}: {size} bytes, but {end} are committed; nothing was changed")
    return Tail(path=path, size=size, keep=end, unsure=start)


def _examine_timings(path: Path, run_id: str, committed: int) -> Tail:
    """Timings have no offsets in the journal: look for the last committed slot's row, from the end."""
    size, keep, seen = size_of(path), None, 0
    if committed == 0:
        return Tail(path=path, size=size, keep=0, unsure=0)
    with storing("reading", path), path.open("rb") as file:
        for offset, text in _backwards(file, size):
            # Going backwards, the last one met is the first in the file: a doubled row is cut.
            if _number(text, run_id) == committed - 1:
                keep, seen = offset + len(text), 0
            seen += keep is not None
            if keep is not None and (seen == GROUP_LIMIT or offset == 0):
                return Tail(path=path, size=size, keep=keep, unsure=offset)
    raise DamagedRun(f"{path}: no row of slot {committed - 1}, which is committed; nothing was changed")


def _backwards(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """A file's lines from the last to the first, each with its offset."""
    start, rest, reach = size, b"", _STEP
    while start > 0:
        step, reach = min(reach, start), reach * 2
        start -= step
        file.seek(start)
        block = file.read(step) + rest
        lines = split_lines(block)
        rest = lines[0] if start else b""
        at = start + len(block)
        for text in reversed(lines[1:] if start else lines):
            at -= len(text)
            yield at, text


def _number(text: bytes, run_id: str) -> int | None:
    """Slot of a whole row of this run, else None."""
    if not text.endswith(b"\n"):
        return None
    try:
        row = _numbered.decode(text)
    except (ValueError, RecursionError):
        return None
    return row.schedule_idx if row.ids.run_id == run_id else None
