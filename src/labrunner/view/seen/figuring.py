"""A run's figures, made in the background where that takes long; who is in a hurry gets what there is.

Rules: figures are made once for each state of the run's files, and of a live run not more often than it is
cheap. One thread makes those of one run. What went wrong is told to everybody who asks while nothing changes.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from labrunner.errors import LabError
from labrunner.runner.reports.lookup import RunPicture

REST: Final = 20
"""A live run's figures are made anew when this many times as long has passed as it took the last time, in
processor time: on a busy machine they are none the dearer."""
FIRST_REST_S: Final = 2.0
"""After the first time, which pays for loading what computes them."""
SOON_S: Final = 0.4
Signature = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Figuring:
    """Figures of one run."""

    make: Callable[[], RunPicture]
    seen: RunPicture | None = None
    rounds: int = 0
    """How often figures were made: tells a page that there are new ones."""
    _seen_of: Signature = ()
    _failed_of: Signature = ()
    _failure: LabError | None = None
    _is_busy: bool = False
    _rests_until: float = 0.0
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, sign: Signature, *, is_live: bool, within_s: float | None) -> RunPicture | None:
        """The figures of a state, or the last ones; None where there are none within that time.

        Without a time limit it waits. Raises LabError where they can't be made.
        """
        with self._turn:
            if self._is_due(sign, is_live=is_live):
                self._is_busy = True
                threading.Thread(target=self._work, args=(sign,), daemon=True).start()
            if self.seen is None or within_s is None or not is_live:
                self._turn.wait_for(lambda: not self._is_busy, within_s)
            if self._failure is not None and self._failed_of == sign:
                raise self._failure
            return self.seen

    def _is_due(self, sign: Signature, *, is_live: bool) -> bool:
        if self._is_busy or sign in {self._seen_of, self._failed_of}:
            return False
        return self.seen is None or not is_live or time.monotonic() >= self._rests_until

    def _work(self, sign: Signature) -> None:
        began, seen, failure = time.thread_time(), None, None
        try:
            seen = self.make()
        except LabError as error:
            failure = error
        finally:
            with self._turn:
                self._is_busy, self.rounds = False, self.rounds + 1
                self._failure, self._failed_of = failure, sign if failure else ()
                if seen is not None:
                    took_s = time.thread_time() - began
                    rest_s = FIRST_REST_S if self.seen is None else REST * took_s
                    self.seen, self._seen_of = seen, sign
                    self._rests_until = time.monotonic() + rest_s
                self._turn.notify_all()
