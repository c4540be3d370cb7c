"""What is to be carried out next: retries that are ready, then owed slots in schedule order."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from labrunner.experiment.schedule import Schedule, Slot
from labrunner.records.completion import Completion, Failed
from labrunner.sandbox.door import Survivor
from labrunner.trial.assignment import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A slot to be carried out, with the attempts that it has behind it."""

    slot: Slot
    history: tuple[Completion, ...] = ()
    token: str | None = None
    """Of an attempt that an earlier sitting began and this one takes up."""
    survivor: Survivor | None = None

    @property
    def attempt(self) -> int:
        """The number of the attempt to come, or to be taken up."""
        return self.history[-1].attempt + 1 if self.history else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A failed attempt, before it is decided what follows from it."""

    work: Work
    assignment: Assignment
    completion: Completion
    failure: Failed


@dataclass(order=True, slots=True)
class _WaitingRetry:
    ready_at: float
    schedule_idx: int
    work: Work = field(compare=False)


class WorkQueue:
    """Hands out work. Holds only retries that wait: the schedule is arithmetic."""

    def __init__(
        self,
        schedule: Schedule,
        is_finished: Callable[[int], bool],
        *,
        first: int,
        histories: Mapping[int, tuple[Completion, ...]],
    ) -> None:
        """Start at slot `first`; slots that are finished already are passed over."""
        self._histories = histories
        self._owed = self._walk(schedule, is_finished, first)
        self._next = next(self._owed, None)
        self._retries: list[_WaitingRetry] = []

    def has_work(self, now: float) -> bool:
        """Whether `take` would give something."""
        return self._next is not None or bool(self._retries and self._retries[0].ready_at <= now)

    def take(self, now: float) -> Work | None:
        """Take the next work that is ready, or None."""
        if self._retries and self._retries[0].ready_at <= now:
            return heapq.heappop(self._retries).work
        if self._next is None:
            return None
        slot, self._next = self._next, next(self._owed, None)
        return Work(slot=slot, history=self._histories.get(slot.schedule_idx, ()))

    def put_back(self, work: Work, *, ready_at: float) -> None:
        """Have a slot carried out again, not before `ready_at`."""
        heapq.heappush(self._retries, _WaitingRetry(ready_at, work.slot.schedule_idx, work))

    @property
    def next_ready_at(self) -> float | None:
        """When the first waiting retry is ready; None when none waits."""
        return self._retries[0].ready_at if self._retries else None

    @staticmethod
    def _walk(schedule: Schedule, is_finished: Callable[[int], bool], first: int) -> Iterator[Slot]:
        return (schedule.slot(idx) for idx in range(first, len(schedule)) if not is_finished(idx))
