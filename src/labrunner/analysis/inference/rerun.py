"""Confidence intervals for a mean over these very tasks, if they were run again.

Rules: only luck within tasks matters, so trials are what is counted, and how tasks differ does not enter.
Rates take all trials for equally hard, which makes the interval no narrower: where tasks differ, luck
within them moves the mean less. Other scores go by how trials of a task differ; where no task was repeated
there is no interval (None).
"""

import math
from collections.abc import Sequence

from labrunner.analysis.inference.distributions import normal_quantile, t_quantile
from labrunner.analysis.inference.interval import LEVEL, Interval, TaskMean, score_ends
from labrunner.analysis.inference.luck import satterthwaite


def rerun_interval(
    tasks: Sequence[TaskMean],
    *,
    is_rate: bool,
    bounds: tuple[float, float] | None = None,
    level: float = LEVEL,
) -> Interval | None:
    """Wilson's interval for rates, Student's for other scores, cut at the scale's declared bounds."""
    if not tasks:
        return None
    return _wilson(tasks, level) if is_rate else _student(tasks, bounds, level)


def _wilson(tasks: Sequence[TaskMean], level: float) -> Interval:
    count = len(tasks)
    mean = math.fsum(task.mean for task in tasks) / count
    size = count * count / math.fsum(1 / task.graded for task in tasks)
    quantile = -normal_quantile((1 - level) / 2)
    low, high = score_ends(mean, size=size, units=size, quantile=quantile, level=level)
    return Interval(
        low=low,
        high=high,
        method="Wilson within tasks",
        level=level,
        tasks=count,
        units=count,
        standard_error=math.sqrt(max(0.0, mean * (1 - mean)) / size),
        freedom=None,
        effective_size=size,
    )


def _student(tasks: Sequence[TaskMean], bounds: tuple[float, float] | None, level: float) -> Interval | None:
    repeated = [task for task in tasks if task.graded > 1]
    squares = [_square_error(task, task.spread / (task.graded - 1)) for task in repeated]
    whole = math.fsum(squares)
    if not whole or not math.isfinite(whole * whole):
        return None
    # A task of a single trial is taken to scatter as others do on average.
    typical = math.fsum(task.spread / (task.graded - 1) for task in repeated) / len(repeated)
    single = math.fsum(_square_error(task, typical) for task in tasks if task.graded <= 1)
    freedom = satterthwaite(
        [(square, task.graded - 1) for square, task in zip(squares, repeated, strict=True)]
    )
    count = len(tasks)
    mean, error = math.fsum(task.mean for task in tasks) / count, math.sqrt(whole + single) / count
    half = t_quantile(freedom, (1 + level) / 2) * error
    lowest, highest = bounds or (-math.inf, math.inf)
    return Interval(
        low=max(lowest, mean - half),
        high=min(highest, mean + half),
        method="t within tasks",
        level=level,
        tasks=count,
        units=count,
        standard_error=error,
        freedom=freedom,
        effective_size=None,
    )


def _square_error(task: TaskMean, variance: float) -> float:
    return variance / task.graded
