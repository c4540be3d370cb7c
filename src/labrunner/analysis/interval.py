"""Confidence intervals for a mean of task means.

Rules: the task is the unit, since its replications share its difficulty; where tasks name a group, the
group is. No hand-written distributions: quantiles come from scipy, which is loaded only when a figure is
asked for. Where data can't carry an interval there is none (None), never one of no width.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from labrunner.analysis.distributions import normal_quantile, t_quantile

Method = Literal["t over tasks", "t over groups", "Wilson over tasks", "Wilson over groups"]
_Unit = Literal["tasks", "groups"]


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
    standard_error: float | None
    """None for Wilson's, which has none. Intervals of rates are cut off at 0 and 1; this is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMean:
    """One task's mean over its graded replications, and the group it belongs to."""

    mean: float
    graded: int
    group: str | None = None


def mean_interval(tasks: Sequence[TaskMean], *, is_binary: bool, level: float = 0.95) -> Interval | None:
    """Choose the method by the data's shape, and apply it; None with fewer than two independent units."""
    means = [task.mean for task in tasks]
    unit: _Unit = "groups" if any(task.group is not None for task in tasks) else "tasks"
    clusters = _clusters(tasks)
    if len(clusters) < 2:
        return None
    if unit == "tasks" and is_binary and all(task.graded == 1 for task in tasks):
        return _wilson(sum(means), unit, tasks=len(tasks), units=len(tasks), level=level)
    if min(means) == max(means):
        # Equal means show no spread to estimate from. At the edge of a 0/1 scale the units still
        # bound the rate; elsewhere nothing does.
        rate = means[0] if is_binary and means[0] in {0.0, 1.0} else None
        units = len(clusters)
        return (
            None if rate is None else _wilson(rate * units, unit, tasks=len(tasks), units=units, level=level)
        )
    found = _student(clusters, unit, level=level)
    return _clip(found) if is_binary else found


def _clip(interval: Interval) -> Interval:
    """Cut off what lies beyond the scale: no rate is there, so nothing is lost."""
    return replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))


def _clusters(tasks: Sequence[TaskMean]) -> list[list[float]]:
    """Task means by group; a task without one stands alone."""
    grouped: defaultdict[str, list[float]] = defaultdict(list)
    alone = []
    for task in tasks:
        if task.group is None:
            alone.append([task.mean])
        else:
            grouped[task.group].append(task.mean)
    return [*alone, *grouped.values()]


def _student(clusters: list[list[float]], unit: _Unit, *, level: float) -> Interval:
    """Student's t around the mean of task means, with the cluster-robust standard error.

    With one task a cluster this is the ordinary standard error of the mean.
    """
    units, tasks = len(clusters), sum(len(cluster) for cluster in clusters)
    mean = math.fsum(value for cluster in clusters for value in cluster) / tasks
    squares = math.fsum(math.fsum(value - mean for value in cluster) ** 2 for cluster in clusters)
    error = math.sqrt(squares * units / (units - 1)) / tasks
    half = t_quantile(units - 1, (1 + level) / 2) * error
    return Interval(
        low=mean - half,
        high=mean + half,
        method="t over tasks" if unit == "tasks" else "t over groups",
        level=level,
        tasks=tasks,
        units=units,
        standard_error=error,
    )


def _wilson(successes: float, unit: _Unit, *, tasks: int, units: int, level: float) -> Interval:
    """Wilson's score interval for a rate: holds near 0 and 1, where others have no width."""
    z = normal_quantile((1 + level) / 2)
    rate, shrink = successes / units, 1 + z * z / units
    centre = (rate + z * z / (2 * units)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / units + z * z / (4 * units * units)) / shrink
    return Interval(
        low=max(0.0, centre - half),
        high=min(1.0, centre + half),
        method="Wilson over tasks" if unit == "tasks" else "Wilson over groups",
        level=level,
        tasks=tasks,
        units=units,
        standard_error=None,
    )
