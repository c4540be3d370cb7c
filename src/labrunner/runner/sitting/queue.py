"""What is to be carried out next: retries that are ready, then owed slots in schedule order."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from labrunner.experiment.schedule import Slot
from labrunner.records.completion import Completion
from labrunner.runner.leftovers.resumption import Resumption
from labrunner.runner.leftovers.taking_up import take_up
from labrunner.runner.plan import Plan, Work


@dataclass(order=True, slots=True)
class _WaitingRetry:
    ready_at: float
    schedule_idx: int
    work: Work = field(compare=False)


class WorkQueue:
    """Hands out work. Holds only retries that wait: the schedule is arithmetic."""

    def __init__(
        self,
        plan: Plan,
        left: Resumption,
        is_finished: Callable[[int], bool],
        *,
        first: int,
    ) -> None:
        """Start at slot `first`; slots that are finished, taken over or under way are passed over."""
        self.adopted = take_up(left, plan.schedule)
        """What an earlier sitting left under way: to be taken up before anything new starts."""
        self._histories = left.histories
        taken_up = {work.slot.schedule_idx for work in self.adopted}
        self._owed = _walk(
            plan, first, lambda idx: idx in taken_up or is_finished(idx) or plan.is_reused(idx)
        )
        self._next = next(self._owed, None)
        self._retries: list[_WaitingRetry] = []

    def has_work(self, now: float) -> bool:
        """Whether `take` would give something."""
        return self._next is not None or bool(self._retries and self._retries[0].ready_at <= now)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is owed, now or later."""
        return self._next is None and not self._retries

    def take(self, now: float) -> Work | None:
        """Take the next work that is ready, or None."""
        if self._retries and self._retries[0].ready_at <= now:
            return heapq.heappop(self._retries).work
        if self._next is None:
            return None
        slot, self._next = self._next, next(self._owed, None)
        return Work(slot=slot, history=self._histories.get(slot.schedule_idx, ()))

    def put_back(self, slot: Slot, history: tuple[Completion, ...], *, ready_at: float) -> None:
        """Have a slot carried out again, with these attempts behind it, not before `ready_at`."""
        work = Work(slot=slot, history=history)
        heapq.heappush(self._retries, _WaitingRetry(ready_at, slot.schedule_idx, work))

    @property
    def next_due(self) -> float | None:
        """When the first waiting retry is ready; None where none waits."""
        return self._retries[0].ready_at if self._retries else None


def _walk(plan: Plan, first: int, is_done: Callable[[int], bool]) -> Iterator[Slot]:
    last = first if plan.drains_only else len(plan.schedule)
    return (plan.schedule.slot(idx) for idx in range(first, last) if not is_done(idx))
