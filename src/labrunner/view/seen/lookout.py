"""Runs of one folder as somebody looks at them: read when asked for, kept while they have not changed.

Rules: a run is named by its folder, which has to lie directly in the folder of runs: a name can't lead
anywhere else. What takes long is made once for each state of the run's files. Used by threads; each run's
board by one at a time.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from labrunner.errors import InputError, LabError
from labrunner.records.run import RunRecord, StatusRecord
from labrunner.records.summary import SummaryRecord
from labrunner.runner.reports.advice import advise_on_damage
from labrunner.runner.reports.lookup import RunPicture, picture, read_standing
from labrunner.runner.reports.summaries import read_older
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import RunState, read_state
from labrunner.store.rows.single_records import read_run
from labrunner.view.seen.board import Board
from labrunner.view.seen.figuring import SOON_S, Figuring, Signature
from labrunner.view.seen.soundness import Soundness

MOST_BOARDS: Final = 4
"""Runs whose slots are kept in memory."""


@dataclass(slots=True, kw_only=True)
class _KeptRun:
    """What is known of one run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Of its board: a table does not wait for figures."""
    board: Board | None = None
    board_of: Signature = ()
    figuring: Figuring


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfigured:
    """A run whose figures are being made."""

    paths: RunPaths
    record: RunRecord
    state: RunState
    status: StatusRecord
    summary: SummaryRecord | None
    """An older one, of what was finished then."""


class Lookout:
    """One folder of runs."""

    def __init__(self, runs_dir: Path) -> None:
        """Look at this folder."""
        self.runs_dir = runs_dir
        self.soundness = Soundness()
        self._kept: dict[str, _KeptRun] = {}
        self._listed: dict[str, tuple[Signature, dict[str, object]]] = {}
        self._lock = threading.Lock()

    def find(self, name: str) -> RunPaths:
        """The run in the folder of this name. Raises InputError when there is none."""
        if not name or name.startswith(".") or "/" in name or "\0" in name:
            raise InputError("run", "a run is named by its folder")
        paths = RunPaths(self.runs_dir / name)
        if not paths.root.is_dir():
            raise InputError("run", f"there is no run {name!r} in {self.runs_dir}")
        return paths

    @contextmanager
    def board(self, name: str) -> Iterator[Board]:
        """A run's slots as they are now, for one thread at a time."""
        paths, kept = self.find(name), self._keep(name)
        with kept.lock, advise_on_damage(paths):
            sign = sign_of(paths)
            if kept.board is None:
                kept.board = Board.of(paths)
            if kept.board_of != sign:
                kept.board.read()
                kept.board_of = sign
            yield kept.board

    def warm(self, name: str) -> None:
        """Read a run before its page asks for it. What is wrong with it is told to the page."""
        with suppress(LabError), self.soundness.quiet.answering(), self.board(name):
            pass

    def picture(self, name: str, *, is_hurried: bool = False) -> "RunPicture | Unfigured":
        """A run with its summary; where that takes long and somebody is in a hurry, what there is of it."""
        paths, kept = self.find(name), self._keep(name)
        with advise_on_damage(paths):
            sign, state, within = sign_of(paths), read_state(paths), SOON_S if is_hurried else None
            seen = kept.figuring.ask(sign, is_live=state == "started", within_s=within)
            record = read_run(paths)
            if seen is None:
                return Unfigured(paths=paths, record=record, state=state,
                                 status=read_standing(paths, record), summary=read_older(paths))  # fmt: skip
            return replace(seen, state=state, status=read_standing(paths, record))

    def list_once(self, name: str, make: Callable[[], dict[str, object]]) -> dict[str, object]:
        """A run as a listing tells it, made once for each state of its files: crashed ones are counted."""
        sign = sign_of(RunPaths(self.runs_dir / name))
        known = self._listed.get(name)
        if known is None or known[0] != sign:
            known = self._listed[name] = (sign, make())
        return known[1]

    def signatures(self) -> dict[str, Signature]:
        """What tells whether runs have changed, by their folders' names."""
        try:
            with os.scandir(self.runs_dir) as entries:
                names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
        except OSError:
            return {}
        return {name: (*sign_of(RunPaths(self.runs_dir / name)), self._sign_findings(name)) for name in names}

    def find_damage(self, name: str) -> str | None:
        """What is wrong with a run's files, where that is known by now."""
        paths = RunPaths(self.runs_dir / name)
        return self.soundness.ask(paths, sign_of(paths))

    def _sign_findings(self, name: str) -> tuple[int, int]:
        """What is found out in the background: damage, and figures."""
        kept = self._kept.get(name)
        return (int(self.soundness.known(name) is not None), kept.figuring.rounds if kept else 0)

    def _keep(self, name: str) -> _KeptRun:
        paths = RunPaths(self.runs_dir / name)
        with self._lock:
            kept = self._kept.pop(name, None) or _KeptRun(figuring=Figuring(lambda: picture(paths)))
            self._kept[name] = kept  # the last one asked for is the last to go
            for other in list(self._kept)[:-MOST_BOARDS]:
                del self._kept[other]
            return kept


def sign_of(paths: RunPaths) -> Signature:
    """What changes whenever a run's files do, and whoever carries it out."""
    wal = paths.buffer.with_name(f"{paths.buffer.name}-wal")
    files = (
        paths.status,
        paths.commits,
        paths.buffer,
        wal,
        paths.invalidations,
        paths.summary,
        paths.outages,
    )
    try:
        is_live = int(read_state(paths) == "started")
    except LabError:
        is_live = -1
    return ((is_live, 0), *map(_stamp, files))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
    except OSError:
        return (0, 0)
    return (facts.st_mtime_ns, facts.st_size)
