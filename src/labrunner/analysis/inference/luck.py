"""How far luck within tasks moves a mean difference, by the scores that trials of a task had.

For scores that are measured, not counted: a task's trials scatter around its own mean, on each side, and that
scatter is all that running the same tasks again would change. What effect there is does not enter: a
permutation of very different scores would take the effect for luck. Where no task was repeated, luck can't be
told from how tasks differ, and the spread of their differences stands for both: more than luck, never less.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.inference.permutation import Contrast

HALF_BIAS: Final = 1.0
"""Of the two degrees of freedom by which a square's own square comes out too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Luck:
    """The standard error of a mean difference that luck within tasks leaves."""

    standard_error: float
    freedom: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What one side of one task adds to the squared error, and the degrees of freedom it is known by."""

    square: float
    freedom: int


def measure_luck(tasks: Sequence[Contrast]) -> Luck | None:
    """The standard error, and its degrees of freedom; None where a single pair of trials is all there is."""
    sides = ([task.baseline for task in tasks], [task.other for task in tasks])
    typical = [_typical(side) for side in sides]
    known = [each for each in typical if each is not None]
    if not known:
        return _by_differences([task.difference for task in tasks])
    # A side of which nothing was repeated is taken to scatter like the other.
    parts = [
        _part(scores, known[0] if own is None else own)
        for side, own in zip(sides, typical, strict=True)
        for scores in side
    ]
    return Luck(
        standard_error=math.sqrt(math.fsum(part.square for part in parts)) / len(tasks),
        freedom=satterthwaite([(part.square, part.freedom) for part in parts if part.freedom]),
        method="t by scores within tasks",
    )


def _typical(side: Sequence[Sequence[float]]) -> float | None:
    """The mean variance of tasks that were repeated; None where none was."""
    repeated = [_square_sum(scores) / (len(scores) - 1) for scores in side if len(scores) > 1]
    return math.fsum(repeated) / len(repeated) if repeated else None


def _part(scores: Sequence[float], typical: float) -> _Part:
    """One side of a task; of a single trial it is as much as others have on average."""
    freedom = len(scores) - 1
    variance = _square_sum(scores) / freedom if freedom else typical
    return _Part(square=variance / len(scores), freedom=freedom)


def satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of squared errors, each with those that it is known by.

    Satterthwaite's, without half of the bias that few of them bring into the squares: with all of it the
    interval is wider than need be where parts are alike, without any too narrow where they are very unlike.
    """
    whole = math.fsum(square for square, _ in parts)
    squared = math.fsum(square * square / (freedom + HALF_BIAS) for square, freedom in parts)
    most = math.fsum(freedom for _, freedom in parts)
    return min(most, max(1.0, whole * whole / squared - HALF_BIAS)) if squared else most


def _by_differences(differences: Sequence[float]) -> Luck | None:
    count = len(differences)
    if count < 2:
        return None
    error = math.sqrt(_square_sum(differences) / (count * (count - 1)))
    return Luck(standard_error=error, freedom=count - 1.0, method="t over tasks")


def _square_sum(values: Sequence[float]) -> float:
    """Squared distances from the mean, without raising where they are too large."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) * (value - mean) for value in values)
