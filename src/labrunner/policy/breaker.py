"""The breaker: a row of failures with one outside cause pauses dispatch instead of spending retries.

Rules: it acts before retry and threshold. Failures that may be an outage are held back, undecided, until
the row breaks (then each is decided as usual) or is long enough (then the breaker opens, and their trials
are owed again as if they had not been tried). While it is open, one probe at a time is let through, after
30 s, then after twice as long, up to 10 min; the first attempt that ends in any other way closes it.
No clock in here: times are arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from labrunner.policy.backoff import wait_s
from labrunner.policy.causes import CONSEQUENCES
from labrunner.policy.pace import PACE, RunPace
from labrunner.records.cause import Cause

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling(Generic[T]):
    """What is to happen with failures, held back ones included."""

    decide: Sequence[T] = ()
    """Decide these as usual: retry, or count them."""
    owe: Sequence[T] = ()
    """Their trials are owed again; nothing was spent."""


@dataclass(slots=True)
class Breaker(Generic[T]):
    """Watches the ends of attempts, whichever trials they belong to."""

    after: int
    pace: RunPace = PACE
    _cause: Cause | None = None
    _held: list[T] = field(default_factory=list)
    _opened_at: float | None = None
    _probe_at: float = 0.0
    _failed_probes: int = 0
    _is_probing: bool = False

    @property
    def is_open(self) -> bool:
        """Whether dispatch is paused."""
        return self._opened_at is not None

    @property
    def opened_at(self) -> float | None:
        """Since when dispatch is paused; None while it is not."""
        return self._opened_at

    @property
    def cause(self) -> Cause | None:
        """What the current row of failures is blamed on."""
        return self._cause

    @property
    def probe_at(self) -> float | None:
        """When the next probe may start; None while closed or while one is under way."""
        return self._probe_at if self.is_open and not self._is_probing else None

    def open_for_s(self, now: float) -> float:
        """How long it has been open."""
        return 0.0 if self._opened_at is None else now - self._opened_at

    def start_probe(self) -> None:
        """One attempt is let through."""
        self._is_probing = True

    def on_failure(self, cause: Cause, item: T, now: float) -> Ruling[T]:
        """An attempt ended with a cause."""
        if self.is_open:
            return self._fail_while_open(cause, item, now)
        if not CONSEQUENCES[cause].watched or self.after < 1:
            return Ruling(decide=[*self._break_row(), item])
        before = self._break_row() if cause is not self._cause else []
        self._cause = cause
        self._held.append(item)
        if len(self._held) < self.after:
            return Ruling(decide=before)
        owed, self._held = self._held, []
        self._opened_at, self._failed_probes, self._is_probing = now, 0, False
        self._plan_probe(now)
        return Ruling(decide=before, owe=owed)

    def on_grade(self) -> Ruling[T]:
        """An attempt ended with a grade: whatever was wrong is over."""
        self._close()
        return Ruling(decide=self._break_row())

    def on_cut_off(self, now: float) -> None:
        """An attempt came to no end, which tells nothing: a probe is made again."""
        if self._is_probing:
            self._is_probing, self._probe_at = False, now

    def let_go(self) -> Ruling[T]:
        """Nothing more will come: decide what is held back."""
        return Ruling(decide=self._break_row())

    def _fail_while_open(self, cause: Cause, item: T, now: float) -> Ruling[T]:
        if cause is not self._cause:
            self._close()
            return self.on_failure(cause, item, now)
        if self._is_probing:
            self._is_probing = False
            self._failed_probes += 1
            self._plan_probe(now)
        return Ruling(owe=[item])

    def _plan_probe(self, now: float) -> None:
        self._probe_at = now + wait_s(
            self._failed_probes, first_s=self.pace.first_probe_s, longest_s=self.pace.longest_probe_s
        )

    def _close(self) -> None:
        self._opened_at, self._is_probing, self._cause = None, False, None

    def _break_row(self) -> list[T]:
        held, self._held, self._cause = self._held, [], None
        return held
