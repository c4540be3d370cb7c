"""What trials cost: time, tokens, money, one trial at a time.

Rules: a trial's figure is the sum over all its attempts, the discarded ones included, those that a crash cut
off by their recorded calls, also those of runs that this one goes on from, unless they were put to another
task or variant. Median and p95 are over trials that report the quantity; what a trial does not report is not
zero. Memory: a few numbers a trial.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from labrunner.analysis.sums.tally import Trial
from labrunner.records.completion import AttemptTiming
from labrunner.records.facts.call_usage import UNPRICED
from labrunner.records.facts.earlier import EarlierAttempt
from labrunner.records.glance import AttemptTimes, TimingGlance
from labrunner.records.rows import TimingRow

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]

Timing = TimingGlance | TimingRow
Attempt = AttemptTimes | AttemptTiming
Tried = Attempt | EarlierAttempt
QUANTITIES: Final = ("time_s", "agent_s", "tokens", "cost_usd", "cpu_s", UNPRICED)
"""What is summed over attempts. `time_s` is the sum of an attempt's phases; the others are reported by
the gateway, agents and sandboxes."""
_UNKNOWN: Final = math.nan
_ENDS: Final = 4
"""What follows the quantities in a row; see `VariantExpense.ends`."""
_WIDTH: Final = len(QUANTITIES) + _ENDS
_pack: Final = Struct(f"{_WIDTH}d").pack


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
    """One variant's expenses: rows of numbers, NaN where a trial does not tell."""

    def __init__(self, tasks: dict[str, int] | None = None) -> None:
        """Begin with nothing; `tasks` numbers tasks alike for all variants of a run."""
        self._tasks = {} if tasks is None else tasks
        self._rows = array("d")
        self._discarded = dict.fromkeys(QUANTITIES, 0.0)
        self.adopted = 0
        self.cut_off = 0
        self.edited = 0

    def add(self, trial: Trial, timing: Timing, earlier: Sequence[EarlierAttempt] = ()) -> None:
        """Take in one final trial, with what earlier runs tried for it."""
        attempts = timing.attempts
        last = attempts[-1]
        if len(attempts) == 1 and not earlier and not timing.cut_off_usage:
            spent: Sequence[float] = _spend(last)
        else:
            before = (each for each in earlier if each.standing != "changed")
            spent = self._sum([*before, *_cut_off(timing), *attempts])
        agent_s = last.phases_s.get("agent", _UNKNOWN)
        # Packed first: an array takes bytes several times as fast as numbers.
        task = self._tasks.setdefault(trial.ids.task_id, len(self._tasks))
        ended = _seconds(last.ended_at)
        self._rows.frombytes(_pack(*spent, ended, agent_s, trial.verdict == "pass", task))
        for attempt in attempts:
            if attempt.adopted:
                self.adopted += 1
        if timing.cut_off:
            self.cut_off += len(timing.cut_off)
        if timing.edited:
            self.edited += 1

    def quantities(self) -> dict[str, Quantity]:
        """Every quantity that any trial tells. Without numpy: every summary has these, also the smallest."""
        columns = ((name, self._rows[number::_WIDTH]) for number, name in enumerate(QUANTITIES))
        # Only NaN differs from itself; asking like this takes a third of the time that a function does.
        told = ((name, sorted([value for value in values if value == value])) for name, values in columns)
        return {name: self._quantity(name, values) for name, values in told if values}

    @property
    def trials(self) -> int:
        """How many trials there are."""
        return len(self._rows) // _WIDTH

    def ends(self) -> "Numbers":
        """For each trial: when its last attempt ended (since 1970), its agent's time, success and task."""
        ends: Numbers = import_module("numpy").array(self._rows).reshape(-1, _WIDTH)[:, -_ENDS:]
        return ends

    def spent_by_task(self, name: str) -> dict[str, tuple[float, int]]:
        """What the trials that tell used of a quantity, and how many of them passed, task by task."""
        names = list(self._tasks)
        amounts, passes = self._rows[QUANTITIES.index(name) :: _WIDTH], self._rows[_WIDTH - 2 :: _WIDTH]
        found: dict[str, tuple[float, int]] = {}
        for amount, passed, task in zip(amounts, passes, self._rows[_WIDTH - 1 :: _WIDTH], strict=True):
            if amount == amount:  # only NaN is not
                spent, solved = found.get(names[int(task)], (0.0, 0))
                found[names[int(task)]] = (spent + amount, solved + int(passed))
        return found

    def _sum(self, attempts: Sequence[Tried]) -> list[float]:
        *others, last = attempts
        whole = list(_spend(last))
        for attempt in others:
            is_discarded = not _is_judged_again(attempt)
            for number, (name, amount) in enumerate(zip(QUANTITIES, _spend(attempt), strict=True)):
                if not math.isnan(amount):
                    self._discarded[name] += amount if is_discarded else 0.0
                    whole[number] = amount + (0.0 if math.isnan(whole[number]) else whole[number])
        return whole

    def _quantity(self, name: str, ordered: Sequence[float]) -> Quantity:
        return Quantity(
            trials=len(ordered),
            median=quantile(ordered, 0.5),
            p95=quantile(ordered, 0.95),
            total=math.fsum(ordered),
            discarded=self._discarded[name],
        )


class Expense:
    """A run's expenses, variant by variant."""

    def __init__(self) -> None:
        """Begin with nothing."""
        tasks: dict[str, int] = {}
        self.variants: defaultdict[str, VariantExpense] = defaultdict(lambda: VariantExpense(tasks))

    def add(self, trial: Trial, timing: Timing, earlier: Sequence[EarlierAttempt] = ()) -> None:
        """Take in one final trial."""
        self.variants[trial.ids.variant_id].add(trial, timing, earlier)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile of numbers in ascending order, interpolated linearly between neighbours."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _spend(attempt: Tried) -> tuple[float, ...]:
    """An attempt's amounts, in the order of `QUANTITIES`."""
    phases, told = attempt.phases_s, attempt.usage.get
    return (
        sum(phases.values()) if phases else _UNKNOWN,
        phases.get("agent", _UNKNOWN),
        told("tokens", _UNKNOWN),
        told("cost_usd", _UNKNOWN),
        told("cpu_s", _UNKNOWN),
        told(UNPRICED, _UNKNOWN),
    )


def _cut_off(timing: Timing) -> list[AttemptTimes]:
    """What attempts used that a crash cut off: nobody timed them, and they were paid."""
    used = timing.cut_off_usage
    return [AttemptTimes(ended_at="", usage=dict(used))] if used else []


def _is_judged_again(attempt: Tried) -> bool:
    """Whether this is the work that the trial's verdict is about, done in an earlier run."""
    return isinstance(attempt, EarlierAttempt) and attempt.standing == "graded_again"


def _seconds(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return math.nan
