"""Whether runs' rows are those that were committed: looked at in the background, once for each state.

Rules: a list of runs waits for nobody: what is not known yet is told when it is, as any other change. One
thread for all runs. Of a very long run only the form of its rows is looked at; `lab verify` looks at all.
"""

import threading
from collections import deque
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

from labrunner.errors import DamagedRun, LabError
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials
from labrunner.store.reading.survey import survey

LONG_RUN: Final = 20_000
Sign = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Soundness:
    """What is known of the runs of one folder."""

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
            self._known[paths.root.name] = (sign, find_damage(paths))


def find_damage(paths: RunPaths) -> str | None:
    """What is wrong with a run's rows."""
    try:
        with survey(paths) as seen:
            if seen.committed > LONG_RUN:
                deque(seen.finished(), maxlen=0)
                return None
        deque(iter_trials(paths), maxlen=0)
    except DamagedRun as error:
        return str(error)
    except (LabError, OSError):
        return None  # gone meanwhile, or not to be read at all: the list says so by itself
    return None
