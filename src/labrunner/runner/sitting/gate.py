"""Whether dispatch may go on: an outage or a full disk closes it for a while, a used up budget for good."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.experiment.options.table import find_option
from labrunner.policy import budget
from labrunner.policy.breaker import Breaker
from labrunner.policy.budget import Spending
from labrunner.records.run import RunError
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.ended import EndedAttempt

_TELL_EVERY_S: Final = 1.0
"""How often it is told anew how long a pause still is."""


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

    @property
    def gives_up_at(self) -> float | None:
        """When the outage will have taken too long; None without one, or where it may take for ever."""
        opened_at, limit = self.breaker.opened_at, self._give_up_after_s
        return None if opened_at is None or limit is None else opened_at + limit

    def find_end(self, now: float, *, is_stuck: bool) -> RunError | None:
        """Why the run has to end: an outage took too long, or the budget is used up.

        `is_stuck`: nothing is under way any more, and something is owed.
        """
        if not (is_stuck or self.breaker.is_open):
            return None
        if self.gives_up_at is not None and self.gives_up_at <= now:
            cause, limit = self.breaker.cause, f"breaker.give_up_after_s={self._give_up_after_s:g}"
            told = f"{cause} kept failing for {self.breaker.open_for_s(now):.0f} s ({limit})"
            return RunError(message=f"{told}; once that is over: lab continue", cause=cause)
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
        why = f"paused: {cause} keeps failing, next probe in {probe_at - now:.0f} s"
        return Pause(until=min(probe_at, now + _TELL_EVERY_S), why=why)


def free_gb_at(folder: Path) -> Callable[[], float]:
    """How to look at the free space where a folder lies."""
    return lambda: shutil.disk_usage(folder).free / 1e9
