"""Marks on trials that are not to be used: nothing is rewritten, a line is added, then the marks are counted.

Rules: a line that was appended and not counted was left by a command that was killed; it holds. Fewer marks
than were counted, or marks that do not chain, are damage: a trial that somebody withdrew must not come back
unseen. `mend_invalidations` is the way out: it keeps what can be read, and sets the rest aside.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import open_append, replace, storing, sync_folder
from labrunner.records.encoding import canonical
from labrunner.records.facts.invalidation import InvalidationRow, MarksRecord, chain_marks
from labrunner.records.seals import is_as_written, seal
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import address
from labrunner.store.rows.lock import acquire
from labrunner.store.rows.single_records import ALTERED, decode, read_run

_rows: Final = msgspec.json.Decoder(InvalidationRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """A run's marks, and what is wrong with them."""

    rows: tuple[InvalidationRow, ...]
    """Every line that can be read, sound or not."""
    whole_bytes: int
    counted: int
    problem: str | None

    @property
    def chain(self) -> str | None:
        """Where the next mark goes on; None for the first."""
        return self.rows[-1].chain if self.rows else None


def read_invalidations(paths: RunPaths) -> tuple[InvalidationRow, ...]:
    """The marks of a run; a torn last line is passed over. Raises DamagedRun when any is lost or changed."""
    return _refuse_damaged(paths, examine_marks(paths)).rows


def find_mark(paths: RunPaths, trial_id: str) -> InvalidationRow | None:
    """The mark on a trial, the newest where there are several; None where it may be used."""
    return next((mark for mark in reversed(read_invalidations(paths)) if mark.trial_id == trial_id), None)


def examine_marks(paths: RunPaths) -> Marks:
    """Look at a run's marks, whatever state they are in."""
    run_id = read_run(paths).run_id
    try:  # the count first: marks that come in between are more than it says, never fewer
        anchor, problem = _read_anchor(paths, run_id), None
    except DamagedRun as error:
        anchor, problem = None, str(error).removeprefix(f"{paths.root}/")
    data = _read_lines(paths)
    whole = data[: data.rfind(b"\n") + 1]
    found = [(text, _decode(text)) for text in whole.splitlines(keepends=True)]
    rows = tuple(row for _, row in found if row is not None)
    return Marks(
        rows=rows,
        whole_bytes=len(whole),
        counted=anchor.count if anchor else 0,
        problem=problem or _find_problem(found, run_id, anchor),
    )


def add_invalidations(paths: RunPaths, marks: Sequence[InvalidationRow]) -> None:
    """Append marks, durably, as the owner of the run. Raises RunLocked while it is live."""
    with acquire(paths):
        known = _refuse_damaged(paths, examine_marks(paths))
        run_id = read_run(paths).run_id
        new = tuple(chain_marks(known.chain or run_id, marks))
        _make_ready(paths, known.whole_bytes)
        file = open_append(paths.invalidations)
        try:
            file.append(b"".join(map(canonical.encode_line, new)))
            file.sync()
        finally:
            file.close()
        _count(paths, run_id, (*known.rows, *new))


def mend_invalidations(paths: RunPaths) -> Marks:
    """Keep the marks that can be read and set the file aside, as the owner; returns what was found."""
    with acquire(paths):
        found = examine_marks(paths)
        run_id = read_run(paths).run_id
        if data := _read_lines(paths):
            paths.salvage.mkdir(exist_ok=True)
            name = f"{paths.invalidations.name}.{canonical.digest_bytes(data)[7:15]}"
            replace(paths.salvage / name, data, point="open.salvage")
            sync_folder(paths.root)
        rows = tuple(chain_marks(run_id, found.rows))
        replace(paths.invalidations, b"".join(map(canonical.encode_line, rows)), point="marks")
        _count(paths, run_id, rows)
    return found


def _find_problem(
    found: Iterable[tuple[bytes, InvalidationRow | None]], run_id: str, anchor: MarksRecord | None
) -> str | None:
    chain, count, counted = run_id, 0, anchor.count if anchor else 0
    for text, row in found:
        expected = next(chain_marks(chain, [row])) if row else None
        if expected is None or expected != row or canonical.encode_line(row) != text:
            return f"line {count + 1} is not as it was written"
        chain, count = expected.chain, count + 1
        if anchor is not None and count == counted and chain != anchor.chain:
            return f"its first {count} marks are not those that were counted"
    if count < counted:
        return f"{count} marks, but {counted} were counted: marks are lost"
    return None


def _refuse_damaged(paths: RunPaths, marks: Marks) -> Marks:
    if marks.problem is None:
        return marks
    raise DamagedRun(
        f"{paths.invalidations}: {marks.problem}; nothing was changed; to keep the marks that can be read "
        f"and set the file aside: lab invalidate {address(paths)} --mend"
    )


def _read_lines(paths: RunPaths) -> bytes:
    with storing("reading", paths.invalidations):
        return paths.invalidations.read_bytes() if paths.invalidations.exists() else b""


def _decode(text: bytes) -> InvalidationRow | None:
    try:
        return _rows.decode(text)
    except (ValueError, RecursionError):
        return None


def _read_anchor(paths: RunPaths, run_id: str) -> MarksRecord | None:
    if not paths.marks.exists():
        return None
    with storing("reading", paths.marks):
        data = paths.marks.read_bytes()
    anchor = decode(paths.marks, data, MarksRecord, "marks_v1")
    if not is_as_written(anchor, data):
        raise DamagedRun(f"{paths.marks}: {ALTERED}")
    if anchor.run_id != run_id:
        raise DamagedRun(f"{paths.marks}: belongs to run {anchor.run_id}, not to {run_id}")
    return anchor


def _make_ready(paths: RunPaths, whole_bytes: int) -> None:
    """Make the file if it is not there, and cut what an interrupted writer left of a line."""
    with storing("opening", paths.invalidations):
        paths.invalidations.touch()
        os.truncate(paths.invalidations, whole_bytes)
    sync_folder(paths.invalidations.parent)


def _count(paths: RunPaths, run_id: str, rows: Sequence[InvalidationRow]) -> None:
    anchor = MarksRecord(
        schema_version="marks_v1",
        run_id=run_id,
        count=len(rows),
        chain=rows[-1].chain if rows else run_id,
    )
    replace(paths.marks, canonical.encode_line(seal(anchor)), point="marks")
