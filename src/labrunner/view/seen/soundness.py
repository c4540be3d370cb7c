"""Whether runs' rows are those that were committed: looked at in the background, once for each state.

Rules: a list of runs waits for nobody: what is not known yet is told when it is, as any other change. One
thread for all runs, which stands still while somebody is being answered. Of a very long run only the form of
its rows is looked at; `lab verify` looks at all.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

from labrunner.errors import DamagedRun, LabError
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials
from labrunner.store.reading.survey import survey

LONG_RUN: Final = 20_000
ROWS_A_TURN: Final = 200
QUIET_S: Final = 0.2
"""So long nobody asked for anything: then there is time for this."""
LONGEST_S: Final = 1.0
"""So long it stands still at most: pages that ask without end do not stop it."""
Sign = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Quiet:
    """Whether somebody is being answered."""

    _answered: int = 0
    _last_at: float = 0.0
    _change: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Somebody is, in this context."""
        with self._change:
            self._answered += 1
        try:
            yield
        finally:
            with self._change:
                self._answered -= 1
                self._last_at = time.monotonic()
                self._change.notify_all()

    def wait(self) -> None:
        """Return when nobody is, and nobody was a moment ago; in any case after a while."""
        until = time.monotonic() + LONGEST_S
        with self._change:
            while (now := time.monotonic()) < until and (self._answered or self._last_at + QUIET_S > now):
                self._change.wait((until if self._answered else min(until, self._last_at + QUIET_S)) - now)


@dataclass(slots=True)
class Soundness:
    """What is known of the runs of one folder."""

    quiet: Quiet = field(default_factory=Quiet)
    _known: dict[str, tuple[Sign, str | None]] = field(default_factory=dict)
    _asked: dict[str, Sign] = field(default_factory=dict)
    _queue: "SimpleQueue[tuple[RunPaths, Sign]]" = field(default_factory=SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def known(self, name: str) -> str | None:
        """What is wrong with a run, as far as it was looked at."""
        return self._known.get(name, ((), None))[1]

    def ask(self, paths: RunPaths, sign: Sign) -> str | None:
        """What is wrong with a run; where it has changed since, it is looked at again, and known later."""
        name = paths.root.name
        with self._lock:
            if self._asked.get(name) != sign:
                self._asked[name] = sign
                self._queue.put((paths, sign))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        found = self._known.get(name)
        return found[1] if found is not None and found[0] == sign else None

    def _work(self) -> None:
        while True:
            paths, sign = self._queue.get()
            self._known[paths.root.name] = (sign, find_damage(paths, self.quiet.wait))


def find_damage(paths: RunPaths, wait: Callable[[], None] = lambda: None) -> str | None:
    """What is wrong with a run's rows; `wait` is called now and then, and lets others go first."""
    try:
        wait()
        with survey(paths) as seen:
            if seen.committed > LONG_RUN:
                _go_through(seen.finished(), wait)
                return None
        _go_through(iter_trials(paths), wait)
    except DamagedRun as error:
        return str(error)
    except (LabError, OSError):
        return None  # gone meanwhile, or not to be read at all: the list says so by itself
    return None


def _go_through(rows: Iterable[object], wait: Callable[[], None]) -> None:
    for number, _ in enumerate(rows):
        if number % ROWS_A_TURN == 0:
            wait()
