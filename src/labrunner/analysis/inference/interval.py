"""Confidence intervals for a mean of task means.

Rules: the task is the unit, since its replications share its difficulty; where tasks name a group, the
group is. No hand-written distributions: quantiles come from scipy, which is loaded only when a figure is
asked for. Where data can't carry an interval there is none (None), never one of no width. An interval of a
rate never shrinks because a trial failed: a perfect record says no more than its number of tasks does. Nor
does it end sooner than the binomial's own chances allow: Wilson's does near 0 and 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from labrunner.analysis.inference.clusters import Clustered, cluster
from labrunner.analysis.inference.distributions import beta_quantile, t_quantile

LEVEL: Final = 0.95
DOUBT: Final = 2.0
"""How many tasks' worth of doubt there is about how alike trials of a task are; see `_effective_size`."""
Method = Literal[
    "t over tasks",
    "t over groups",
    "Wilson over tasks",
    "Wilson over groups",
    "t within tasks",
    "Wilson within tasks",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval with what is needed to compute it again."""

    low: float
    high: float
    method: Method
    level: float
    tasks: int
    units: int
    """Independent units: tasks, or groups of tasks."""
    standard_error: float
    """Of the mean, by the spread between units, or by that of trials within tasks; for Wilson's before doubt
    is mixed in."""
    freedom: float | None
    """Degrees of freedom of the t quantile; None: normal."""
    effective_size: float | None
    """How many independent trials would tell as much about a rate; None for other scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMean:
    """One task's mean over its graded replications, and the group it belongs to."""

    mean: float
    graded: float
    """Independent tries behind the mean."""
    group: str | None = None
    spread: float = 0.0
    """Sum of squared distances of its trials' scores from the mean."""


def mean_interval(
    tasks: Sequence[TaskMean],
    *,
    is_rate: bool,
    bounds: tuple[float, float] | None = None,
    level: float = LEVEL,
) -> Interval | None:
    """Wilson's interval for rates, Student's for other scores, cut at the scale's declared bounds.

    None with fewer than two independent units, and for scores that are all equal: they show no spread.
    """
    found = cluster([task.mean for task in tasks], [task.group for task in tasks]) if tasks else None
    if found is None:
        return None
    unit: Literal["tasks", "groups"] = "groups" if any(task.group is not None for task in tasks) else "tasks"
    if is_rate:
        return _wilson(found, unit, tries=math.fsum(task.graded for task in tasks), level=level)
    return _student(found, unit, bounds, level=level) if found.standard_error else None


def _student(
    found: Clustered, unit: Literal["tasks", "groups"], bounds: tuple[float, float] | None, *, level: float
) -> Interval:
    half = t_quantile(found.freedom, (1 + level) / 2) * found.standard_error
    lowest, highest = bounds or (-math.inf, math.inf)
    return Interval(
        low=max(lowest, found.mean - half),
        high=min(highest, found.mean + half),
        method="t over tasks" if unit == "tasks" else "t over groups",
        level=level,
        tasks=found.tasks,
        units=found.units,
        standard_error=found.standard_error,
        freedom=found.freedom,
        effective_size=None,
    )


def _wilson(found: Clustered, unit: Literal["tasks", "groups"], *, tries: float, level: float) -> Interval:
    size = _effective_size(found, tries)
    quantile = t_quantile(found.freedom, (1 + level) / 2)
    low, high = score_ends(found.mean, size=size, units=found.effective_units, quantile=quantile, level=level)
    return Interval(
        low=low,
        high=high,
        method="Wilson over tasks" if unit == "tasks" else "Wilson over groups",
        level=level,
        tasks=found.tasks,
        units=found.units,
        standard_error=found.standard_error,
        freedom=found.freedom,
        effective_size=size,
    )


def score_ends(
    mean: float, *, size: float, units: float, quantile: float, level: float
) -> tuple[float, float]:
    """Wilson's score interval on an effective size: holds near 0 and 1 too."""
    rate = min(1.0, max(0.0, mean))
    pull = quantile * quantile / size
    centre = (rate + pull / 2) / (1 + pull)
    half = quantile * math.sqrt(rate * (1 - rate) / size + pull / (4 * size)) / (1 + pull)
    # Ends of a perfect record, and of one without a success: these are never passed.
    best, worst = units / (units + quantile * quantile), quantile * quantile / (units + quantile * quantile)
    return (
        max(0.0, min(centre - half, _exact_end(rate, size, level), best)),
        min(1.0, max(centre + half, 1 - _exact_end(1 - rate, size, level), worst)),
    )


def _exact_end(rate: float, size: float, level: float) -> float:
    """Clopper and Pearson's lower end, with all the error on this side: near 0 only this side can miss."""
    return beta_quantile(1 - level, size * rate, size * (1 - rate) + 1) if rate else 0.0


def _effective_size(found: Clustered, tries: float) -> float:
    """How many independent trials would tell as much: p(1-p)/SE², with doubt mixed in near 0 and 1.

    Near the ends few tasks have failed (or passed), so data hardly tell how alike trials of a task are.
    There the worst is mixed in, a task's trials all alike: then only units count. In the middle nothing is.
    """
    rate = min(1.0, max(0.0, found.mean))
    variance, units = rate * (1 - rate), found.effective_units
    doubt = (1 - 4 * variance) * DOUBT / (DOUBT + units * variance)
    seen = found.standard_error * found.standard_error / variance if variance else 0.0
    return min(tries, 1 / ((1 - doubt) * seen + doubt / units)) if doubt or seen else tries
