"""Figures over scores, and how the epochs of a sample become one number."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from labrunner.errors import InputError
from labrunner.experiment.options import kinds
from labrunner.solve.values.score import metric

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


Reducer: TypeAlias = Callable[[Sequence[float]], float | None]
"""None where the graded epochs are too few to tell: a missing one is neither right nor wrong."""


def mode(scores: Sequence[float]) -> float:
    """The most frequent score; of several, the first that came."""
    return Counter(scores).most_common(1)[0][0]


def at_least(k: int, scores: Sequence[float]) -> float | None:
    """1 when at least k epochs are right; of fewer than k it can't be told."""
    return float(sum(score >= 1.0 for score in scores) >= k) if len(scores) >= k else None


def pass_at(k: int, scores: Sequence[float]) -> float | None:
    """The unbiased estimate that at least one of k epochs is right; from fewer than k there is none."""
    n, right = len(scores), sum(score >= 1.0 for score in scores)
    return 1.0 - math.comb(n - right, k) / math.comb(n, k) if n >= k else None


_REDUCERS: Final[Mapping[str, Reducer]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "mode": mode,
    "max": max,
}


_COUNTED: Final[Mapping[str, Callable[[int, Sequence[float]], float | None]]] = {
    "at_least": at_least,
    "pass_at": pass_at,
}


def find_reducer(name: str) -> Reducer:
    """The reducer of a name: mean, median, mode, max, at_least_<k>, pass_at_<k>."""
    if name in _REDUCERS:
        return _REDUCERS[name]
    prefix, count = _split(name)
    if prefix in _COUNTED and count > 0:
        return partial(_COUNTED[prefix], count)
    raise InputError(
        "epochs",
        f"there is no reducer {name!r}; there are: {', '.join(_REDUCERS)}, at_least_<k>, pass_at_<k>",
    )


def _split(name: str) -> tuple[str, int]:
    """Take `pass_at_2` apart; 0 where a name ends with no number."""
    prefix, _, count = name.rpartition("_")
    return prefix, int(count) if count.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Epochs:
    """How often each sample is tried, and how its scores become one: in one way, or in several."""

    epochs: int
    reducer: str | Sequence[str] = "mean"

    def __post_init__(self) -> None:
        """Refuse what can't be done, where it is written."""
        kinds.COUNT.check("epochs", self.epochs)
        if not self.reducers:
            raise InputError("epochs", "names no reducer; leave it out for the mean")
        for name in self.reducers:
            find_reducer(name)
            if name not in _REDUCERS and _split(name)[1] > self.epochs:
                raise InputError("epochs", f"{name} can't be told from {self.epochs} epochs")

    @property
    def reducers(self) -> tuple[str, ...]:
        """Names of the ways, the main one first."""
        return (self.reducer,) if isinstance(self.reducer, str) else tuple(self.reducer)
