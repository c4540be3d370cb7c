"""What follows from an attempt's end: its slot is final, or tried again, or owed as if it had not been tried.

Rules: nothing is done here: whoever asks carries the steps out, in their order. What was used is counted
before anything is decided. An attempt that the budget, or the loss of its node, cut short has been no try:
its slot is owed.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from labrunner.policy.breaker import Ruling
from labrunner.policy.budget import CUT_SHORT
from labrunner.policy.retry import Retry, decide_retry
from labrunner.records.cause import Cause
from labrunner.records.completion import Cancelled, Failed, Graded
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.course import Course
from labrunner.runner.sitting.ended import EndedAttempt
from labrunner.runner.sitting.gate import DispatchGate


class Owe(msgspec.Struct, frozen=True, kw_only=True):
    """An outage, a lost node or the budget ended it: its slot is owed, and no retry was spent."""

    ended: EndedAttempt


class TryAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Its trial is tried again, after a while."""

    ended: EndedAttempt
    wait_s: float


class Conclude(msgspec.Struct, frozen=True, kw_only=True):
    """Its end is its slot's."""

    ended: EndedAttempt


Step = Owe | TryAgain | Conclude


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Decides what becomes of the slots of a sitting."""

    plan: Plan
    course: Course
    gate: DispatchGate

    def follow(self, ended: EndedAttempt) -> list[Step]:
        """Count what an attempt used, and say what follows, also for those that waited for it."""
        end = ended.completion.end
        self.course.spending.add(ended.completion.timing.usage, is_graded=isinstance(end, Graded))
        self.course.tallies.warning = self.gate.warn(self.course.tallies.planned)
        if isinstance(end, Cancelled):
            if end.reason in CUT_SHORT:
                self.course.spending.refused.add(CUT_SHORT[end.reason])
            self.gate.breaker.on_cut_off(time.monotonic())
            return [Owe(ended=ended)]
        if isinstance(end, Failed):
            return list(self._rule(self._hear_of(ended, end)))
        return [*self._rule(self.gate.breaker.on_grade()), Conclude(ended=ended)]

    def let_go(self) -> list[Step]:
        """Nothing more will come: decide what the breaker holds back."""
        return list(self._rule(self.gate.breaker.let_go()))

    def _hear_of(self, ended: EndedAttempt, failure: Failed) -> Ruling[EndedAttempt]:
        """Ask the breaker, unless this very error ends the run: then there is nothing to wait for."""
        policy = self.plan.experiment.policy
        ends_run = policy.fail_on_error is True and not policy.continue_on_fail
        if ends_run and self._retry_after(ended, failure.cause) is None:
            return Ruling(decide=[ended])
        return self.gate.breaker.on_failure(failure.cause, ended, time.monotonic())

    def _rule(self, ruling: Ruling[EndedAttempt]) -> Iterator[Step]:
        for ended in ruling.owe:
            yield Owe(ended=ended)
        for ended in ruling.decide:
            retry = self._retry_after(ended, ended.failure.cause) if ended.failure else None
            yield Conclude(ended=ended) if retry is None else TryAgain(ended=ended, wait_s=retry.wait_s)

    def _retry_after(self, ended: EndedAttempt, cause: Cause) -> Retry | None:
        return decide_retry(
            cause,
            attempt=len(ended.attempts),
            retry_on_error=self.plan.experiment.policy.retry_on_error,
            jitter=random.random(),
            pace=self.plan.pace,
        )
