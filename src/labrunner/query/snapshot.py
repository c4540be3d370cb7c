"""Files that SQL may read: a run's rows up to what is committed, and what waits in the buffer beside them.

Rules: SQL never gets the path of a file that may grow. A run without an owner whose files end where its
journal says is read in place, and the caller asks afterwards whether that still holds; everything
else is copied first, up to the journal's offsets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.records.facts.invalidation import InvalidationRow
from labrunner.records.run import RunRecord
from labrunner.store.buffering.buffer import BufferedSlot
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.events import read_events
from labrunner.store.reading.recordings import Recorded, read_all_calls, read_all_doors
from labrunner.store.reading.survey import PIECE_BYTES, Survey, survey
from labrunner.store.rows.lock import is_owned
from labrunner.store.rows.outages import read_outages
from labrunner.store.rows.single_records import read_run
from labrunner.store.rows.written import open_file, refuse_altered, size_of

FILES: Final = (
    *("trials", "scores", "predictions", "timings"),
    *("events", "calls", "doors", "earlier", "tasks", "runs", "outages"),
)
_OF_SLOTS: Final = frozenset({"trials", "scores", "predictions", "timings"})
"""Files with rows of slots, which grow as slots are committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file of rows; committed ones, or ones that wait."""

    path: Path
    is_committed: bool
    run_id: str
    in_place: int | None = None
    """The size that a file read in place must still have when it has been read."""

    def has_changed(self) -> bool:
        """Whether the file grew meanwhile, so that what was read from it may not be sound."""
        return self.in_place is not None and self.path.stat().st_size != self.in_place


@dataclass(slots=True)
class Sources:
    """Everything that SQL reads, over all runs."""

    files: dict[str, list[Source]] = field(default_factory=lambda: {name: [] for name in FILES})
    tasks: list[tuple[str, Path]] = field(default_factory=list)
    """Each run's id, with its tasks: written once, so read in place."""
    earlier: list[Path] = field(default_factory=list)
    """What each run says of the runs before it: written once, too."""
    invalidations: list[tuple[str, InvalidationRow]] = field(default_factory=list)

    def have_changed(self) -> bool:
        """Whether anything that was read in place grew."""
        return any(source.has_changed() for sources in self.files.values() for source in sources)


class _WaitingRow(msgspec.Struct):
    """A buffered slot's rows, each as it would lie in its file."""

    trial: msgspec.Raw
    timing: msgspec.Raw
    scores: tuple[msgspec.Raw, ...] = ()
    predictions: tuple[msgspec.Raw, ...] = ()


_GLOB: Final = frozenset("*?[")
"""Characters that make DuckDB take a path for a pattern."""
_waiting: Final = msgspec.json.Decoder(_WaitingRow)


def take_snapshot(runs: Sequence[RunPaths], names: Sequence[str], folder: Path, *, copy: bool) -> Sources:
    """Make the named files of every run readable; copies, where needed, go into `folder`."""
    sources = Sources()
    for number, paths in enumerate(runs):
        place = folder / str(number)
        place.mkdir()
        _add_run(sources, paths, names, place, copy=copy)
    return sources


def _add_run(sources: Sources, paths: RunPaths, names: Sequence[str], place: Path, *, copy: bool) -> None:
    # Asked before the journal is read: an owner that comes later makes files grow, which is seen.
    in_place = not copy and not is_owned(paths)
    with survey(paths) as seen:
        record = read_run(paths)
        refuse_altered(paths.tasks, record.digests.tasks)
        sources.tasks.append((seen.run_id, _plain_path(paths.tasks, place)))
        sources.earlier.append(_earlier(paths, record, place))
        sources.invalidations += [(seen.run_id, mark) for mark in read_invalidations(paths)]
        for name in names:
            if name in _OF_SLOTS:
                sources.files[name].append(_committed(seen, name, place, in_place=in_place))
        waiting = _write_waiting(seen.waiting, names, place)
        for name, path in waiting.items():
            sources.files[name].append(Source(path=path, is_committed=False, run_id=seen.run_id))
    whole = {
        "earlier": lambda: sources.earlier[-1],
        "tasks": lambda: sources.tasks[-1][1],
        "events": lambda: _write_events(paths, place / "events.jsonl"),
        "calls": lambda: _write_recorded(read_all_calls(paths), place / "calls.jsonl"),
        "doors": lambda: _write_recorded(read_all_doors(paths), place / "doors.jsonl"),
        "runs": lambda: _write_run(record, place / "runs.jsonl"),
        "outages": lambda: _write_outages(paths, record.run_id, place / "outages.jsonl"),
    }
    for name in whole.keys() & set(names):
        sources.files[name].append(Source(path=whole[name](), is_committed=True, run_id=record.run_id))


def _earlier(paths: RunPaths, record: RunRecord, place: Path) -> Path:
    """What a run says of those before it; an empty file where there were none."""
    if record.digests.earlier is not None:
        refuse_altered(paths.earlier, record.digests.earlier)
        return _plain_path(paths.earlier, place)
    none = place / "earlier.jsonl"
    none.touch()
    return none


def _committed(seen: Survey, name: str, place: Path, *, in_place: bool) -> Source:
    path: Path = getattr(seen.paths, name)
    end = _end_of_timings(path, seen.committed) if name == "timings" else getattr(seen.ends, name)
    size = size_of(path)
    if size < end:
        raise DamagedRun(f"{path}: {size} bytes, but {end} are committed; try: lab verify")
    if in_place and size == end and not _GLOB & set(str(path)):
        return Source(path=path, is_committed=True, run_id=seen.run_id, in_place=size)
    copied = place / f"{name}.jsonl"
    _copy(path, copied, end)
    return Source(path=copied, is_committed=True, run_id=seen.run_id)


def _end_of_timings(path: Path, committed: int) -> int:
    """Where the line of the last committed slot ends: timings have no offsets in the journal."""
    left, at = committed, 0
    with open_file(path) as file:
        while left and (piece := file.read(PIECE_BYTES)):
            lines = piece.count(b"\n")
            if lines >= left:
                return at + _nth_line_end(piece, left)
            left, at = left - lines, at + len(piece)
    if left:
        raise DamagedRun(f"{path}: {committed - left} rows, but {committed} are committed; try: lab verify")
    return at


def _nth_line_end(piece: bytes, count: int) -> int:
    if piece.endswith(b"\n") and piece.count(b"\n") == count:
        return len(piece)
    at = 0
    for _ in range(count):
        at = piece.index(b"\n", at) + 1
    return at


def _plain_path(path: Path, place: Path) -> Path:
    """The path of a file that never grows, or of its copy where the path would be taken for a pattern."""
    if not _GLOB & set(str(path)):
        return path
    copied = place / path.name
    _copy(path, copied, path.stat().st_size)
    return copied


def _copy(source: Path, target: Path, end: int) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        left = end
        while left and (piece := reading.read(min(PIECE_BYTES, left))):
            writing.write(piece)
            left -= len(piece)


def _write_waiting(waiting: Iterator[BufferedSlot], names: Sequence[str], place: Path) -> dict[str, Path]:
    """Write what waits in the buffer into files of its own; none where nothing waits."""
    first = next(waiting, None)
    if first is None:
        return {}
    paths = {name: place / f"{name}.waiting.jsonl" for name in names if name in _OF_SLOTS}
    files = {name: path.open("wb") for name, path in paths.items()}
    try:
        for kept in _chain(first, waiting):
            slot = _waiting.decode(kept.payload)
            rows = {
                "trials": (slot.trial,),
                "timings": (slot.timing,),
                "scores": slot.scores,
                "predictions": slot.predictions,
            }
            for name, file in files.items():
                file.writelines(bytes(row) + b"\n" for row in rows[name])
    finally:
        for file in files.values():
            file.close()
    return paths


def _chain(first: BufferedSlot, rest: Iterator[BufferedSlot]) -> Iterator[BufferedSlot]:
    yield first
    yield from rest


def _write_run(record: RunRecord, target: Path) -> Path:
    """Write what is known of a run as a whole as its row."""
    told = {
        "run_id": record.run_id,
        "lineage_id": record.lineage_id,
        "name": record.name,
        "tags": record.tags,
        "created_at": record.created_at,
        "planned": record.planned,
        "metadata": record.experiment.get("metadata", {}),
        "digest": record.digests.experiment,
    }
    target.write_bytes(msgspec.json.encode(told) + b"\n")
    return target


def _write_outages(paths: RunPaths, run_id: str, target: Path) -> Path:
    """Write when outages paused a run as rows."""
    rows = [{"run_id": run_id, **msgspec.to_builtins(outage)} for outage in read_outages(paths)]
    target.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return target


def _write_recorded(rows: Iterator[Recorded], target: Path) -> Path:
    """Write what the gateway recorded of every attempt as rows."""
    with target.open("wb") as file:
        for row in rows:
            file.write(msgspec.json.encode(row) + b"\n")
    return target


def _write_events(paths: RunPaths, target: Path) -> Path:
    """Write every trial's events as rows: those that agents left, and those of trials under way."""
    with target.open("wb") as file:
        for row in read_events(paths):
            file.write(msgspec.json.encode(row) + b"\n")
    return target
