"""Every slot of one run in memory, small: what tables and maps are made of.

Rules: what is committed never changes, so it is read once, and a live run costs what it has added since;
what waits in the buffer is read anew each time. Texts of errors are kept without what differs from trial to
trial, and once each.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from labrunner.errors import DamagedRun, LabError
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import read_state
from labrunner.store.reading.survey import Survey, read_pieces, survey
from labrunner.store.reading.underway import UnderWay, read_under_way

Row = TypeVar("Row")
LONGEST_TEXT: Final = 160
MOST_ORDERS: Final = 8
"""Kept of one run: as many as a page with a few tabs asks for."""
_VARIES: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{12,}|\d+")
_PATH: Final = re.compile(r"/(?:[\w.+=@-]+/)+")


class _RowOwner(msgspec.Struct, gc=False):
    trial_id: str


class _Counted(msgspec.Struct, gc=False):
    """An attempt, of which only the number matters here."""


class _Ended(msgspec.Struct, gc=False):
    schedule_idx: int
    ids: _RowOwner
    outcome: str
    verdict: str | None
    primary_metric_value: float | None
    cause: str | None
    reason: str | None
    ended_by: str | None
    flags: tuple[str, ...]
    attempts: tuple[_Counted, ...]


class _AttemptClock(msgspec.Struct, gc=False):
    started_at: str
    ended_at: str
    phases_s: dict[str, float] = {}
    usage: dict[str, float] = {}
    message: str | None = None


class _Clock(msgspec.Struct, gc=False):
    schedule_idx: int
    attempts: tuple[_AttemptClock, ...]


class _Waiting(msgspec.Struct, gc=False):
    trial: _Ended
    timing: _Clock


class BoardRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one slot ended."""

    idx: int
    ending: str
    """`pass`, `fail`, `error`, or `owed` for one that a recovered report has no result of."""
    value: float | None
    cause: str | None
    reason: str | None
    text: str | None
    """What was said of the error, without what differs from trial to trial."""
    ended_by: str | None
    flags: tuple[str, ...]
    attempts: int
    began_at: str | None
    ended_at: str | None
    time_s: float
    tokens: float | None
    cost_usd: float | None


_trials: Final = msgspec.json.Decoder(_Ended)
_timings: Final = msgspec.json.Decoder(_Clock)
_waiting: Final = msgspec.json.Decoder(_Waiting)


@dataclass(slots=True, kw_only=True)
class Board:
    """One run's slots. `read` brings it up to date; it is used by one thread at a time."""

    paths: RunPaths
    tasks: tuple[str, ...]
    variants: tuple[str, ...]
    schedule: Schedule
    rows: dict[int, BoardRow] = field(default_factory=dict)
    """Finished slots by their position."""
    running: dict[int, UnderWay] = field(default_factory=dict)
    withdrawn: dict[str, str] = field(default_factory=dict)
    """Trials that are not to be used, each with why."""
    _committed: int = 0
    _trials_at: int = 0
    _timings_at: int = 0
    _buffered: set[int] = field(default_factory=set)
    _places: dict[str, int] = field(default_factory=dict)
    _orders: dict[object, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: RunPaths, experiment: Experiment) -> "Board":
        """An empty board for a run."""
        return cls(
            paths=paths,
            tasks=tuple(task.id for task in experiment.tasks),
            variants=tuple(variant.id for variant in experiment.variants),
            schedule=Schedule.of(experiment),
        )

    def read(self) -> None:
        """Take in what the run has added. Raises DamagedRun where its files contradict each other."""
        # What is under way is read first: what finishes meanwhile is then among the finished ones.
        running = read_under_way(self.paths) if read_state(self.paths) == "started" else ()
        try:
            added, waiting = self._take_in()
        except LabError:
            self._forget()  # what was read of it is not to be gone on from
            raise
        self.rows |= added | waiting
        self._buffered = set(waiting)
        self.running = {each.schedule_idx: each for each in running if each.schedule_idx not in self.rows}
        self.withdrawn = {mark.trial_id: mark.reason for mark in read_invalidations(self.paths)}
        self._orders.clear()

    def _take_in(self) -> tuple[dict[int, BoardRow], dict[int, BoardRow]]:
        """Rows that were committed since, and those that wait."""
        with survey(self.paths) as seen:
            if seen.committed < self._committed:
                self._forget()
            for idx in self._buffered:
                self.rows.pop(idx, None)
            added = dict(self._read_committed(seen))
            return added, {idx: row for idx, row in self._read_waiting(seen) if idx >= seen.committed}

    def trial_id(self, slot: Slot) -> str:
        """What a slot's trial is called."""
        return make_trial_id(self.variants[slot.variant_idx], self.tasks[slot.task_idx], slot.repl_idx)

    def ending(self, slot: Slot) -> str:
        """How a slot stands: a verdict, `error`, `running`, `owed`, or `withdrawn`."""
        row = self.rows.get(slot.schedule_idx)
        if row is None:
            return "running" if slot.schedule_idx in self.running else "owed"
        if self.withdrawn and self.trial_id(slot) in self.withdrawn:
            return "withdrawn"
        return row.ending

    def find(self, trial_id: str) -> Slot | None:
        """The slot of a trial's id."""
        if not self._places:
            self._places = {self.trial_id(slot): slot.schedule_idx for slot in self.schedule}
        idx = self._places.get(trial_id)
        return None if idx is None else self.schedule.slot(idx)

    def remember(self, key: object, make: Callable[[], Sequence[int]]) -> Sequence[int]:
        """An order of slots or tasks, made once for each state of the run."""
        if key not in self._orders:
            if len(self._orders) >= MOST_ORDERS:
                self._orders.clear()
            self._orders[key] = make()
        return self._orders[key]

    def _forget(self) -> None:
        """Begin anew: this is not the run that was read before, though it lies in the same place."""
        self.rows.clear()
        self._committed = self._trials_at = self._timings_at = 0
        self._buffered = set()

    def _read_committed(self, seen: Survey) -> Iterator[tuple[int, BoardRow]]:
        count = seen.committed - self._committed
        trials = _read_lines(self.paths.trials, self._trials_at, seen.ends.trials)
        timings = _read_lines(self.paths.timings, self._timings_at, None)
        taken = 0
        for trial, timing in islice(zip(trials, timings, strict=False), count):
            taken += 1
            self._trials_at += len(trial) + 1
            self._timings_at += len(timing) + 1
            row = _join(
                _decode(self.paths.trials, _trials, trial), _decode(self.paths.timings, _timings, timing)
            )
            yield row.idx, row
        if taken < count:
            raise DamagedRun(
                f"{self.paths.trials}: {count - taken} committed rows are not there; try: lab verify"
            )
        self._committed = seen.committed

    def _read_waiting(self, seen: Survey) -> Iterator[tuple[int, BoardRow]]:
        for kept in seen.waiting:
            slot = _decode(self.paths.buffer, _waiting, kept.payload)
            yield kept.schedule_idx, _join(slot.trial, slot.timing)


def normalise(text: str) -> str:
    """An error's first line without numbers and folders: alike for errors that are alike."""
    first = text.strip().partition("\n")[0][: 4 * LONGEST_TEXT]
    return _VARIES.sub("…", _PATH.sub("…/", first))[:LONGEST_TEXT]


def _read_lines(path: Path, start: int, end: int | None) -> Iterator[bytes]:
    for piece in read_pieces(path, end, start=start):
        yield from piece[:-1].split(b"\n")


def _decode(path: Path, decoder: msgspec.json.Decoder[Row], line: bytes) -> Row:
    try:
        return decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {path}: {error}; try: lab verify") from error


def _join(trial: _Ended, timing: _Clock) -> BoardRow:
    if trial.schedule_idx != timing.schedule_idx:
        raise DamagedRun(f"slot {timing.schedule_idx} has its times where {trial.schedule_idx}'s should be")
    clocks = timing.attempts
    said = clocks[-1].message if clocks and trial.outcome == "failed" else None
    return BoardRow(
        idx=trial.schedule_idx,
        ending=trial.verdict or ("error" if trial.outcome == "failed" else "owed"),
        value=trial.primary_metric_value,
        cause=None if trial.cause is None else sys.intern(trial.cause),
        reason=None if trial.reason is None else sys.intern(trial.reason),
        text=None if said is None else sys.intern(normalise(said)),
        ended_by=trial.ended_by,
        flags=trial.flags,
        attempts=len(trial.attempts),
        began_at=clocks[0].started_at if clocks else None,
        ended_at=clocks[-1].ended_at if clocks else None,
        time_s=sum(sum(each.phases_s.values()) for each in clocks),
        tokens=_sum([each.usage.get("tokens") for each in clocks]),
        cost_usd=_sum([each.usage.get("cost_usd") for each in clocks]),
    )


def _sum(amounts: list[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
