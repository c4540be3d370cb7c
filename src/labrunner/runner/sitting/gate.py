"""Whether dispatch may go on: an outage or a full disk closes it for a while, a used up budget for good."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labrunner.experiment.options.table import find_option
from labrunner.policy import budget
from labrunner.policy.breaker import Breaker
from labrunner.policy.budget import Spending
from labrunner.records.run import RunError
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.queue import EndedAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Dispatch waits."""

    until: float | None
    """When to look again; None when only an attempt's end can change it."""
    why: str


class DispatchGate:
    """Stands between the queue and the executor."""

    def __init__(self, plan: Plan, spending: Spending) -> None:
        """Take what is to be carried out, and what was spent before."""
        policy = plan.experiment.policy
        self._give_up_after_s = policy.breaker.give_up_after_s
        self.breaker: Breaker[EndedAttempt] = Breaker(after=policy.breaker.after, pace=plan.pace)
        self.spending = spending
        self.has_budget = bool(budget.limits_of(policy.budget))
        """Whether there is a limit to what may be used."""
        self._budget = policy.budget
        self._free_gb = free_gb_at(plan.paths.root)
        self._min_free_gb = policy.min_free_disk_gb
        self._look_every_s = plan.pace.look_at_disk_s
        self._looked_at = float("-inf")
        self._is_low = False
        self._seen_gb = 0.0

    def check(self, now: float) -> Pause | None:
        """Say whether dispatch waits; None lets one attempt through."""
        if self.is_used_up:
            return Pause(until=None, why="the budget is used up, trials in flight come to their end")
        if self.breaker.is_open:
            return self._wait_for_probe(now)
        if self._min_free_gb > 0 and now - self._looked_at >= self._look_every_s:
            self._looked_at = now
            self._seen_gb = self._free_gb()
            self._is_low = self._seen_gb < self._min_free_gb
        if not self._is_low:
            return None
        why = f"{self._seen_gb:.1f} GB free, waiting for {self._min_free_gb:g} (min_free_disk_gb)"
        return Pause(until=self._looked_at + self._look_every_s, why=why)

    @property
    def is_used_up(self) -> bool:
        """Whether the budget lets no attempt through any more."""
        return self.has_budget and bool(budget.find_used_up(self._budget, self.spending))

    def find_end(self, now: float, *, is_stuck: bool) -> RunError | None:
        """Why the run has to end: an outage took too long, or the budget is used up.

        `is_stuck`: nothing is under way any more, and something is owed.
        """
        limit, open_s = self._give_up_after_s, self.breaker.open_for_s(now)
        if limit is not None and self.breaker.is_open and open_s >= limit:
            cause = self.breaker.cause
            return RunError(message=f"{cause} kept failing for {open_s:.0f} s", cause=cause)
        if is_stuck and self.is_used_up:
            used_up = budget.find_used_up(self._budget, self.spending)
            told = budget.describe_used_up(self._budget, self.spending, used_up)
            raised = " ".join(find_option("set").spell(f"budget.{name}=X") for name in used_up)
            return RunError(message=f"{told}; to go on with more: lab continue {raised}")
        return None

    def warn(self, planned: int) -> str:
        """What people must hear about a budget that can't hold; empty when it can."""
        if not self.has_budget:
            return ""
        unheard = budget.find_unheard(self._budget, self.spending, planned=planned)
        return budget.describe_unheard(self._budget, unheard)

    def _wait_for_probe(self, now: float) -> Pause | None:
        cause, probe_at = self.breaker.cause, self.breaker.probe_at
        if probe_at is None:
            return Pause(until=None, why=f"paused: {cause} keeps failing, one trial is probing")
        if probe_at <= now:
            self.breaker.start_probe()
            return None
        return Pause(
            until=probe_at, why=f"paused: {cause} keeps failing, next probe in {probe_at - now:.0f} s"
        )


def free_gb_at(folder: Path) -> Callable[[], float]:
    """How to look at the free space where a folder lies."""
    return lambda: shutil.disk_usage(folder).free / 1e9
