"""The standard error of a mean of task means, and its degrees of freedom, where tasks may come in groups.

Bell and McCaffrey's bias-reduced cluster-robust error (CR2) for the mean alone. With one task a group it is
the ordinary standard error, with n - 1 degrees of freedom. Where groups are unequal, degrees of freedom are
those of Bell and McCaffrey, most of the way from what holds for tasks that are independent to what holds for
tasks as much alike within groups as these are: the first has too little coverage, the second too much
(docs/statistics.md). How alike tasks of a group are is an estimate: what must not be too large goes by the
most that data leave open.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.inference.distributions import f_quantile

LIKENESS_SHARE: Final = 0.9
"""How far degrees of freedom go by the likeness that is seen; with less, unequal groups cover under 93%."""
SURE: Final = 0.99
"""How surely tasks are no more alike within groups than `effective_units` takes them to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """What a mean of task means is known by."""

    mean: float
    standard_error: float
    freedom: float
    tasks: int
    units: int
    """Independent units: tasks, or groups of tasks."""
    effective_units: float
    """How many independent tasks tell as much, if tasks are as alike within groups as these leave open."""


def cluster(values: Sequence[float], groups: Sequence[str | None]) -> Clustered | None:
    """The mean of task means with its error; None with fewer than two units, or numbers too large."""
    units = _split(values, groups)
    if len(units) < 2:
        return None
    tasks = len(values)
    mean = math.fsum(values) / tasks
    sizes = [len(unit) for unit in units]
    squares = math.fsum(
        _square(math.fsum(value - mean for value in unit)) / (1 - len(unit) / tasks) for unit in units
    )
    if not math.isfinite(mean) or not math.isfinite(squares):
        return None
    # Where every task stands alone they are units, and have no likeness to tell of.
    spread = _spread(units, mean) if max(sizes) > 1 else None
    return Clustered(
        mean=mean,
        standard_error=math.sqrt(squares) / tasks,
        freedom=freedom_of(sizes, spread.likeness() if spread else 0.0),
        tasks=tasks,
        units=len(units),
        effective_units=_effective_units(sizes, spread.most() if spread else 0.0),
    )


def _effective_units(sizes: Sequence[int], likeness: float) -> float:
    """How many independent tasks tell as much as these, if they are so much alike within groups."""
    tasks = sum(sizes)
    return tasks * tasks / math.fsum(size * (1 + (size - 1) * likeness) for size in sizes)


def _split(values: Sequence[float], groups: Sequence[str | None]) -> list[list[float]]:
    """Task means by group; a task without one stands alone."""
    grouped: dict[str, list[float]] = {}
    alone = []
    for value, group in zip(values, groups, strict=True):
        if group is None:
            alone.append([value])
        else:
            grouped.setdefault(group, []).append(value)
    return [*alone, *grouped.values()]


def freedom_of(sizes: Sequence[int], likeness: float) -> float:
    """Degrees of freedom of groups of these sizes, whose tasks are seen to be alike by `likeness`."""
    if min(sizes) == max(sizes):
        return len(sizes) - 1.0
    independent, alike = bell_mccaffrey(sizes, 0.0), bell_mccaffrey(sizes, likeness)
    return (1 - LIKENESS_SHARE) * independent + LIKENESS_SHARE * alike


def bell_mccaffrey(sizes: Sequence[int], likeness: float) -> float:
    """Degrees of freedom, where tasks of a group correlate by `likeness`.

    The squared error is a quadratic form whose matrix is a diagonal plus a part of rank two; its trace, and
    that of its square, need sums over groups only.
    """
    tasks = sum(sizes)
    root = [1 / math.sqrt(1 - size / tasks) for size in sizes]
    x = [factor * size for factor, size in zip(root, sizes, strict=True)]
    y = [factor * size * size for factor, size in zip(root, sizes, strict=True)]
    pull = likeness * math.fsum(size * size for size in sizes) / tasks**2 - (1 - likeness) / tasks
    push = likeness / tasks
    diagonal = [
        factor * factor * ((1 - likeness) * size + likeness * size * size)
        for factor, size in zip(root, sizes, strict=True)
    ]
    own = [pull * a * a - 2 * push * a * b for a, b in zip(x, y, strict=True)]
    xx, yy, xy = _dot(x, x), _dot(y, y), _dot(x, y)
    trace = math.fsum(diagonal) + math.fsum(own)
    square = (
        _dot(diagonal, diagonal)
        + 2 * _dot(diagonal, own)
        + pull * pull * xx * xx
        - 4 * pull * push * xx * xy
        + 2 * push * push * (xy * xy + xx * yy)
    )
    return trace * trace / square


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """The analysis of variance of tasks in groups."""

    within: float
    """Mean square within groups."""
    between: float
    """Mean square between groups."""
    typical: float
    """How many tasks a group has, as that analysis counts."""
    freedom: tuple[int, int]

    def likeness(self, share: float = 1.0) -> float:
        """The intraclass correlation if the mean squares' ratio is `share` times as large by luck."""
        ratio = self.between / share
        signal = max(0.0, ratio - self.within)
        whole = signal + self.typical * self.within
        return signal / whole if whole else 1.0

    def most(self) -> float:
        """As much likeness as these tasks leave open."""
        above, below = self.freedom
        return self.likeness(f_quantile(1 - SURE, above, below)) if self.within else 1.0


def _spread(units: Sequence[Sequence[float]], mean: float) -> _Spread:
    sizes = [len(unit) for unit in units]
    tasks, groups = sum(sizes), len(sizes)
    means = [math.fsum(unit) / len(unit) for unit in units]
    inside = math.fsum(
        _square(value - centre) for unit, centre in zip(units, means, strict=True) for value in unit
    )
    outside = math.fsum(size * _square(each - mean) for size, each in zip(sizes, means, strict=True))
    return _Spread(
        within=inside / (tasks - groups),
        between=outside / (groups - 1),
        typical=(tasks - math.fsum(size * size for size in sizes) / tasks) / (groups - 1),
        freedom=(groups - 1, tasks - groups),
    )


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _square(value: float) -> float:
    """Without raising where the result is too large, unlike `**`."""
    return value * value
