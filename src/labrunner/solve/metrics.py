"""Figures over scores, and how the epochs of a sample become one number."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from labrunner.errors import InputError
from labrunner.solve import kinds
from labrunner.solve.score import metric

Figure: TypeAlias = Callable[[Sequence[float]], float]


@metric
def accuracy() -> Figure:
    """Share of what is right: the mean."""
    return statistics.fmean


@metric
def mean() -> Figure:
    """Mean over samples."""
    return statistics.fmean


@metric
def std() -> Figure:
    """Standard deviation over samples; 0 for a single one."""
    return _deviation


@metric
def var() -> Figure:
    """Variance over samples; 0 for a single one."""
    return lambda scores: _deviation(scores) ** 2


@metric
def stderr() -> Figure:
    """Standard error of the mean over samples; 0 for a single one."""
    return lambda scores: _deviation(scores) / math.sqrt(len(scores))


def _deviation(scores: Sequence[float]) -> float:
    return statistics.stdev(scores) if len(scores) > 1 else 0.0


Reducer: TypeAlias = Callable[[Sequence[float]], float]


def mode(scores: Sequence[float]) -> float:
    """The most frequent score; of several, the first that came."""
    return Counter(scores).most_common(1)[0][0]


def at_least(k: int, scores: Sequence[float]) -> float:
    """1 when at least k epochs are right."""
    return float(sum(score >= 1.0 for score in scores) >= k)


def pass_at(k: int, scores: Sequence[float]) -> float:
    """The unbiased estimate that at least one of k epochs is right."""
    n, right = len(scores), sum(score >= 1.0 for score in scores)
    return 1.0 if n - right < k else 1.0 - math.comb(n - right, k) / math.comb(n, k)


_REDUCERS: Final[Mapping[str, Reducer]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "mode": mode,
    "max": max,
}


def find_reducer(name: str) -> Reducer:
    """The reducer of a name: mean, median, mode, max, at_least_<k>, pass_at_<k>."""
    if name in _REDUCERS:
        return _REDUCERS[name]
    for prefix, reducer in (("at_least_", at_least), ("pass_at_", pass_at)):
        count = name.removeprefix(prefix)
        if count != name and count.isdecimal() and int(count) > 0:
            return partial(reducer, int(count))
    raise InputError(
        "epochs",
        f"there is no reducer {name!r}; there are: {', '.join(_REDUCERS)}, at_least_<k>, pass_at_<k>",
    )


@dataclass(frozen=True, slots=True)
class Epochs:
    """How often each sample is tried, and how its scores become one."""

    epochs: int
    reducer: str = "mean"

    def __post_init__(self) -> None:
        """Refuse what can't be done, where it is written."""
        kinds.COUNT.check("epochs", self.epochs)
        find_reducer(self.reducer)
