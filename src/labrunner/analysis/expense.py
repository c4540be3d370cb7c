"""What trials cost: time, tokens, money, one trial at a time.

Rules: a trial's figure is the sum over all its attempts, the discarded ones included. Median and p95 are
over trials that report the quantity; what a trial does not report is not zero. Memory: a few numbers a trial.
"""

import math
from array import array
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from labrunner.analysis.tally import Trial
from labrunner.records.completion import AttemptTiming
from labrunner.records.glance import AttemptTimes, TimingGlance
from labrunner.records.rows import TimingRow

Timing = TimingGlance | TimingRow
REPORTED: Final = ("tokens", "cost_usd", "cpu_s")
"""What agents and sandboxes report and can be summed. `time_s` is the sum of an attempt's phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One quantity over a variant's trials."""

    trials: int
    """Trials that report it."""
    median: float
    p95: float
    total: float
    """Over all attempts."""
    discarded: float
    """Over attempts before the last one of each trial."""


class VariantExpense:
    """One variant's expenses."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._by_trial: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._discarded: defaultdict[str, float] = defaultdict(float)
        self.ended_at = array("d")
        """When each trial's last attempt ended, in seconds since 1970; NaN when nobody knows."""
        self.agent_s = array("d")
        """How long its agent ran; NaN when it did not."""
        self.has_passed = bytearray()
        self.adopted = 0
        self.cut_off = 0

    def add(self, trial: Trial, timing: Timing) -> None:
        """Take in one final trial."""
        *discarded, last = map(_spend, timing.attempts)
        whole = dict(last)
        for spent in discarded:
            for name, amount in spent.items():
                whole[name] = whole.get(name, 0.0) + amount
                self._discarded[name] += amount
        for name, amount in whole.items():
            self._by_trial[name].append(amount)
        self.ended_at.append(_seconds(timing.attempts[-1].ended_at))
        self.agent_s.append(timing.attempts[-1].phases_s.get("agent", math.nan))
        self.has_passed.append(trial.verdict == "pass")
        self.adopted += sum(attempt.adopted for attempt in timing.attempts)
        self.cut_off += len(timing.cut_off)

    def quantities(self) -> dict[str, Quantity]:
        """Every quantity that was reported."""
        return {name: self._quantity(name) for name in sorted(self._by_trial)}

    def _quantity(self, name: str) -> Quantity:
        values = sorted(self._by_trial[name])
        return Quantity(
            trials=len(values),
            median=quantile(values, 0.5),
            p95=quantile(values, 0.95),
            total=math.fsum(values),
            discarded=self._discarded.get(name, 0.0),
        )


class Expense:
    """A run's expenses, variant by variant."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.variants: defaultdict[str, VariantExpense] = defaultdict(VariantExpense)

    def add(self, trial: Trial, timing: Timing) -> None:
        """Take in one final trial."""
        self.variants[trial.ids.variant_id].add(trial, timing)


def quantile(ordered: list[float], share: float) -> float:
    """Quantile of sorted values, interpolated linearly between neighbours."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def _spend(attempt: AttemptTimes | AttemptTiming) -> dict[str, float]:
    spent = {name: attempt.usage[name] for name in REPORTED if name in attempt.usage}
    if attempt.phases_s:
        spent["time_s"] = sum(attempt.phases_s.values())
        if "agent" in attempt.phases_s:
            spent["agent_s"] = attempt.phases_s["agent"]
    return spent


def _seconds(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return math.nan
