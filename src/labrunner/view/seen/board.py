"""Every slot of one run in memory, small: what tables, maps and searches are made of.

Rules: what is committed never changes, so it is read once, and a live run costs what it has added since;
what waits in the buffer is read anew each time. Texts of errors are kept without what differs from trial to
trial, and once each.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from labrunner.errors import DamagedRun, LabError
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.reports.recorded import read_outline
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import read_state
from labrunner.store.reading.survey import Survey, read_pieces, survey
from labrunner.store.reading.underway import UnderWay, read_under_way
from labrunner.view.seen.slotfacts import ENDINGS, ERROR, OWED, RUNNING, WITHDRAWN, Columns, Figures, Saying

Row = TypeVar("Row")
Kept = TypeVar("Kept")
LONGEST_TEXT: Final = 160
NEVER: Final = "NaTZ"
MOST_ORDERS: Final = 16
"""Kept of one run: as many as a page with a few tabs asks for."""
_VARIES: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{12,}|\d+")
_PATH: Final = re.compile(r"/(?:[\w.+=@-]+/)+")
_CODES: Final = {"pass": ENDINGS.index("pass"), "fail": ENDINGS.index("fail")}


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


class _NamedFile(msgspec.Struct, gc=False):
    path: str


class _Use(msgspec.Struct, gc=False, frozen=True):
    tokens: float = nan
    cost_usd: float = nan


_UNUSED: Final = _Use()


class _AttemptClock(msgspec.Struct, gc=False):
    attempt: int
    started_at: str
    ended_at: str
    phases_s: dict[str, float] = {}
    usage: _Use = _UNUSED
    message: str | None = None
    logs: tuple[_NamedFile, ...] = ()
    adopted: bool = False
    node: str | None = None


class _Clock(msgspec.Struct, gc=False):
    schedule_idx: int
    attempts: tuple[_AttemptClock, ...]


class _Waiting(msgspec.Struct, gc=False):
    trial: _Ended
    timing: _Clock


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
    columns: Columns
    running: dict[int, UnderWay] = field(default_factory=dict)
    withdrawn: dict[str, str] = field(default_factory=dict)
    """Trials that are not to be used, each with why."""
    committed: int = 0
    _trials_at: int = 0
    _timings_at: int = 0
    _buffered: list[int] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _orders: dict[object, Any] = field(default_factory=dict)  # whatever was made for its key

    @classmethod
    def of(cls, paths: RunPaths) -> "Board":
        """An empty board for a run."""
        experiment, tasks = read_outline(paths)
        schedule = replace(Schedule.of(experiment), tasks=len(tasks))
        return cls(
            paths=paths,
            tasks=tasks,
            variants=tuple(variant.id for variant in experiment.variants),
            schedule=schedule,
            columns=Columns.of(schedule),
        )

    def read(self) -> None:
        """Take in what the run has added. Raises DamagedRun where its files contradict each other."""
        # What is under way is read first: what finishes meanwhile is then among the finished ones.
        running = read_under_way(self.paths) if read_state(self.paths) == "started" else ()
        try:
            with survey(self.paths) as seen:
                self._take_in(seen)
        except LabError:
            self._forget()  # what was read of it is not to be gone on from
            raise
        has_row = self.columns.has_row
        self.running = {each.schedule_idx: each for each in running if not has_row[each.schedule_idx]}
        self._stand()
        self._orders.clear()

    def trial_id(self, slot: Slot) -> str:
        """What a slot's trial is called."""
        return make_trial_id(self.variants[slot.variant_idx], self.tasks[slot.task_idx], slot.repl_idx)

    def slot(self, idx: int) -> Slot:
        """The slot at a position: as the schedule has it, which may take long to compute it."""
        columns = self.columns
        return Slot(
            schedule_idx=idx,
            variant_idx=int(columns.variant[idx]),
            task_idx=int(columns.task[idx]),
            repl_idx=int(columns.repl[idx]),
        )

    def index(self, variant_idx: int, task_idx: int, repl_idx: int) -> int:
        """The position of a trial."""
        return int(self.columns.grid[task_idx, variant_idx, repl_idx])

    def ending(self, idx: int) -> str:
        """How a slot stands: a verdict, `error`, `running`, `owed`, or `withdrawn`."""
        return ENDINGS[self.columns.standing[idx]]

    def find(self, trial_id: str) -> Slot | None:
        """The slot of a trial's id."""
        if not self._places:
            self._places = {self.trial_id(self.slot(idx)): idx for idx in range(len(self.schedule))}
        idx = self._places.get(trial_id)
        return None if idx is None else self.slot(idx)

    def remember(self, key: object, make: Callable[[], Kept]) -> Kept:
        """What is made once for each state of the run: an order, say."""
        if key not in self._orders:
            if len(self._orders) >= MOST_ORDERS:
                self._orders.clear()
            self._orders[key] = make()
        found: Kept = self._orders[key]
        return found

    def _stand(self) -> None:
        columns, marks = self.columns, list(read_invalidations(self.paths))
        self.withdrawn = {mark.trial_id: mark.reason for mark in marks}
        columns.standing[:] = columns.outcome
        columns.standing[list(self.running)] = RUNNING
        marked = [mark.schedule_idx for mark in marks if columns.has_row[mark.schedule_idx]]
        columns.standing[marked] = WITHDRAWN

    def _take_in(self, seen: Survey) -> None:
        """Rows that were committed since, and those that wait."""
        if seen.committed < self.committed:
            self._forget()
        self.columns.clear(self._buffered)
        self._buffered = []
        self._read_committed(seen)
        for kept in seen.waiting:
            (slot,) = _decode(self.paths.buffer, _waiting, kept.payload)
            self._put(kept.schedule_idx, [slot.trial])
            self._clock(kept.schedule_idx, [slot.timing])
            self._buffered.append(kept.schedule_idx)

    def _forget(self) -> None:
        """Begin anew: this is not the run that was read before, though it lies in the same place."""
        self.columns.clear(slice(None))
        self.committed = self._trials_at = self._timings_at = 0
        self._buffered = []

    def _read_committed(self, seen: Survey) -> None:
        count, first = seen.committed - self.committed, self.committed
        for rows, _ in _read_rows(self.paths.trials, _trials, (self._trials_at, seen.ends.trials), count):
            self._put(first, rows)
            first += len(rows)
        self._trials_at = seen.ends.trials
        first = self.committed
        for clocks, size in _read_rows(self.paths.timings, _timings, (self._timings_at, None), count):
            self._clock(first, clocks)
            self._timings_at += size
            first += len(clocks)
        self.committed = seen.committed

    def _put(self, first: int, rows: Sequence[_Ended]) -> None:
        self._check([row.schedule_idx for row in rows], first)
        columns, part = self.columns, slice(first, first + len(rows))
        columns.has_row[part] = True
        columns.outcome[part] = [_code(row) for row in rows]
        columns.value[part] = [
            nan if row.primary_metric_value is None else row.primary_metric_value for row in rows
        ]
        columns.attempts[part] = [len(row.attempts) for row in rows]
        columns.said[part] = [self._say(row) for row in rows]

    def _say(self, row: _Ended) -> int:
        if row.cause is None and row.reason is None and row.ended_by is None and not row.flags:
            return 0
        said = Saying(cause=row.cause, reason=row.reason, ended_by=row.ended_by, flags=row.flags)
        return self.columns.sayings.place(said)

    def _clock(self, first: int, rows: Sequence[_Clock]) -> None:
        self._check([row.schedule_idx for row in rows], first)
        columns, part = self.columns, slice(first, first + len(rows))
        clocks = [row.attempts for row in rows]
        columns.time_s[part] = [_add_phases(each) for each in clocks]
        columns.tokens[part] = [
            each[0].usage.tokens if len(each) == 1 else _add(use.usage.tokens for use in each)
            for each in clocks
        ]
        columns.cost_usd[part] = [
            each[0].usage.cost_usd if len(each) == 1 else _add(use.usage.cost_usd for use in each)
            for each in clocks
        ]
        columns.began[part] = _seconds([each[0].started_at if each else NEVER for each in clocks])
        columns.ended[part] = _seconds([each[-1].ended_at if each else NEVER for each in clocks])
        columns.is_adopted[part] = [bool(each) and each[-1].adopted for each in clocks]
        columns.node[part] = [columns.nodes.place((each and each[-1].node) or "") for each in clocks]
        columns.last[part] = [each[-1].attempt if each else 0 for each in clocks]
        columns.left[part] = [
            columns.leavings.place(tuple([log.path for log in each[-1].logs]))
            if each and each[-1].logs
            else 0
            for each in clocks
        ]
        for idx, each in enumerate(clocks, first):
            if each and each[-1].message is not None and columns.outcome[idx] == ERROR:
                self._quote(idx, each[-1].message)

    def _quote(self, idx: int, message: str) -> None:
        columns = self.columns
        said = columns.sayings.texts[columns.said[idx]]
        quoted = Saying(
            cause=said.cause,
            reason=said.reason,
            text=normalise(message),
            ended_by=said.ended_by,
            flags=said.flags,
        )
        columns.said[idx] = columns.sayings.place(quoted)

    def _check(self, found: list[int], first: int) -> None:
        if found != list(range(first, first + len(found))):
            odd = next(
                idx for idx, at in zip(found, range(first, first + len(found)), strict=True) if idx != at
            )
            raise DamagedRun(f"{self.paths.root}: slot {odd} stands where another should be; try: lab verify")


def normalise(text: str) -> str:
    """An error's first line without numbers and folders: alike for errors that are alike."""
    first = text.strip().partition("\n")[0][: 4 * LONGEST_TEXT]
    return _VARIES.sub("…", _PATH.sub("…/", first))[:LONGEST_TEXT]


def _code(row: _Ended) -> int:
    if row.verdict is None:
        return ERROR if row.outcome == "failed" else OWED
    return _CODES.get(row.verdict, OWED)


def _read_rows(
    path: Path, decoder: msgspec.json.Decoder[Row], part: tuple[int, int | None], count: int
) -> Iterator[tuple[list[Row], int]]:
    """The next rows of a file, some at a time, with their bytes. Raises DamagedRun where there are fewer."""
    start, end = part
    left = count
    for piece in read_pieces(path, end, start=start) if count else ():
        rows = _decode(path, decoder, piece)
        if len(rows) > left:  # rows behind the last commit, which are not ours to look at
            lines = piece.split(b"\n")[:left]
            yield rows[:left], sum(map(len, lines)) + left
            return
        yield rows, len(piece)
        left -= len(rows)
        if not left:
            return
    if left:
        raise DamagedRun(f"{path}: {left} committed rows are not there; try: lab verify")


def _decode(path: Path, decoder: msgspec.json.Decoder[Row], lines: bytes) -> list[Row]:
    try:
        return decoder.decode_lines(lines)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {path}: {error}; try: lab verify") from error


# Nearly every trial has one attempt: it is looked at without a loop.
def _add_phases(clocks: Sequence[_AttemptClock]) -> float:
    if len(clocks) == 1:
        return sum(clocks[0].phases_s.values())
    return sum(sum(each.phases_s.values()) for each in clocks)


def _add(figures: Iterable[float]) -> float:
    given = [each for each in figures if not isnan(each)]
    return sum(given) if given else nan


def _seconds(times: list[str]) -> Figures:
    """Seconds since 1970, many at a time: records tell times in UTC."""
    if not all(at.endswith("Z") for at in times):
        raise DamagedRun(f"a time is not in UTC: {next(at for at in times if not at.endswith('Z'))!r}")
    moments = np.array([at[:-1] for at in times], "datetime64[ms]")
    return np.where(np.isnat(moments), nan, moments.astype(np.float64) / 1000)


def known(figure: float) -> float | None:
    """A figure of a column; None where there is none."""
    return None if isnan(figure) else float(figure)
