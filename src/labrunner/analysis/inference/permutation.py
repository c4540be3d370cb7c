"""p-values by permutation, and Holm's adjustment of several.

Two tests. Trials permuted within tasks: if both arms do alike on every task, each of its trials could as
well have been the other arm's. Signs flipped: if neither arm is better, each unit's difference could as
well have had the other sign. Both are two-sided mid-p-values: of what is exactly as extreme as the outcome,
half counts. All assignments are looked at where that can be done; else there are seeded draws; and where
there are so many trials that the sum is normal, its exact variance is used.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from labrunner.analysis.inference.distributions import hypergeometric_chances, normal_tail

if TYPE_CHECKING:
    import numpy as np

    Sums = np.ndarray[Any, np.dtype[np.float64]]

EXACT_UP_TO: Final = 20
DRAWS: Final = 10_000
SEED: Final = 20_260_102
MOST_COUNTED: Final = 20_000
"""Trials of 0 and 1 are counted out where their sum has at most so many values."""
MOST_DRAWN: Final = 1_000
"""So many other trials, or units, are drawn; beyond that the sum is as good as normal."""
RAREST_DRAWN: Final = 0.002
"""Draws can't tell how small a smaller p is: below, the sum is taken to be normal."""
_ROUNDING: Final = 1e-9
"""Sums this close, relative to the largest, are the same: differences of rates are not exact in binary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PValue:
    """A two-sided mid-p-value and how it was found."""

    value: float
    method: str
    differing: int
    """Units that could have come out otherwise."""
    deviation: float
    """Standard deviation of the mean difference under the hypothesis."""
    draws: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One task's scores on both sides."""

    baseline: Sequence[float]
    other: Sequence[float]

    @property
    def difference(self) -> float:
        """Mean of the other side minus that of the baseline."""
        return math.fsum(self.other) / len(self.other) - math.fsum(self.baseline) / len(self.baseline)

    @property
    def variance(self) -> float:
        """Variance of the difference over all permutations of the task's scores."""
        pooled = [*self.baseline, *self.other]
        centre = math.fsum(pooled) / len(pooled)
        squares = math.fsum((value - centre) * (value - centre) for value in pooled)
        return squares / (len(pooled) - 1) * (1 / len(self.baseline) + 1 / len(self.other))


def permute_trials(tasks: Sequence[Contrast], *, is_rate: bool) -> PValue:
    """Permute trials between the two sides within each task."""
    variances = [task.variance for task in tasks]
    moving = [task for task, variance in zip(tasks, variances, strict=True) if variance > 0]
    deviation = math.sqrt(math.fsum(variances)) / len(tasks)
    method = "trials permuted within tasks"

    def found(value: float, how: str, *, is_drawn: bool = False) -> PValue:
        return _found(value, f"{method}{how}", len(moving), deviation, is_drawn=is_drawn)

    if not moving:
        return found(1.0, "")
    if is_rate:
        lattice = _Lattice.of(moving)
        if lattice.values_of(moving) <= MOST_COUNTED:
            return found(_count_out(moving, lattice), ", all of them")
    if len(moving) <= EXACT_UP_TO and all(len(task.baseline) == 1 == len(task.other) for task in moving):
        # Of two trials there is nothing to permute but which is whose.
        return found(sign_flip([task.difference for task in moving]).value, ", all of them")
    observed = abs(math.fsum(task.difference for task in tasks))
    normal = 2 * normal_tail(observed / (deviation * len(tasks)))
    if sum(len(task.baseline) + len(task.other) for task in moving) > MOST_DRAWN:
        return found(normal, ", normal")
    drawn = _mid_p(_permuted_sums(moving), observed, is_drawn=True)
    return found(normal, ", normal") if drawn < RAREST_DRAWN else found(drawn, "", is_drawn=True)


def sign_flip(differences: Sequence[float], unit: str = "tasks") -> PValue:
    """Flip signs of units' differences: every assignment up to 20 that differ, else seeded draws."""
    values = [abs(value) for value in differences if value != 0.0]
    observed = abs(math.fsum(differences))
    deviation = math.sqrt(math.fsum(value * value for value in values)) / max(1, len(differences))
    method = f"sign-flip over {unit}"

    def found(value: float, how: str, *, is_drawn: bool = False) -> PValue:
        return _found(value, f"{method}{how}", len(values), deviation, is_drawn=is_drawn)

    if not values:
        return found(1.0, "")
    if len(values) <= EXACT_UP_TO:
        return found(_mid_p(_all_sums(values), observed, is_drawn=False), ", all of them")
    if len(values) > MOST_DRAWN:
        return found(2 * normal_tail(observed / (deviation * len(differences))), ", normal")
    return found(_mid_p(_drawn_sums(values), observed, is_drawn=True), "", is_drawn=True)


def adjust_holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment, in the order given."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = highest
    return tuple(adjusted)


def holm_shares(p_values: Sequence[float], alpha: float) -> tuple[int, ...]:
    """By how much each comparison's share of alpha is smaller than alpha, in the order given.

    Intervals at equal shares hold all together. What only Holm's further steps reject gets the share of its
    step: so an interval leaves out zero exactly when Holm rejects.
    """
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    shares = [len(p_values)] * len(p_values)
    for rank, number in enumerate(order):
        left = len(p_values) - rank
        if p_values[number] * left >= alpha:
            break
        if p_values[number] * len(p_values) >= alpha:
            shares[number] = left
    return tuple(shares)


def _found(value: float, method: str, differing: int, deviation: float, *, is_drawn: bool) -> PValue:
    return PValue(
        value=min(1.0, value),
        method=f"{method}, {DRAWS} draws, seed {SEED}" if is_drawn else method,
        differing=differing,
        deviation=deviation,
        draws=DRAWS if is_drawn else None,
        seed=SEED if is_drawn else None,
    )


def _mid_p(sums: "Sums", observed: float, *, is_drawn: bool) -> float:
    numpy = import_module("numpy")
    sizes = numpy.abs(sums)
    slack = _ROUNDING * max(observed, float(sizes.max()))
    beyond = int((sizes > observed + slack).sum())
    even = int((numpy.abs(sizes - observed) <= slack).sum())
    # The outcome itself is one of the draws.
    return (beyond + (even + 1) / 2) / (len(sums) + 1) if is_drawn else (beyond + even / 2) / len(sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lattice:
    """The whole numbers that sums of tasks' differences are multiples of: tasks have few replications."""

    unit: int
    """By what differences are multiplied to be whole."""
    stride: int
    """What sums differ by, at least."""

    @classmethod
    def of(cls, tasks: Sequence[Contrast]) -> "_Lattice":
        unit = math.lcm(*(len(side) for task in tasks for side in (task.baseline, task.other)))
        return cls(unit=unit, stride=math.gcd(*(cls.step(unit, task) for task in tasks)))

    @staticmethod
    def step(unit: int, task: Contrast) -> int:
        """What a task's difference changes by when a pass goes to the other side."""
        return unit // len(task.baseline) + unit // len(task.other)

    def values_of(self, tasks: Sequence[Contrast]) -> int:
        """How many values the sum can have, at most."""
        return sum(
            min(len(task.baseline), len(task.other)) * self.step(self.unit, task) // self.stride
            for task in tasks
        )


def _count_out(tasks: Sequence[Contrast], lattice: _Lattice) -> float:
    """The exact mid-p-value of scores of 0 and 1: how many of a task's passes fall to the other side."""
    numpy = import_module("numpy")
    chances, lowest, observed, unit = numpy.ones(1), 0, 0, lattice.unit
    shapes = Counter((len(t.baseline), len(t.other), round(sum(t.baseline) + sum(t.other))) for t in tasks)
    for (baseline, other, passed), count in shapes.items():
        step = unit // baseline + unit // other
        dealt = hypergeometric_chances(baseline + other, other, passed)
        one = numpy.zeros((len(dealt) - 1) * step // lattice.stride + 1)
        one[:: step // lattice.stride] = dealt
        chances = numpy.convolve(chances, _power(one, count))
        lowest += count * (max(0, passed - baseline) * step - passed * unit // baseline)
    for task in tasks:
        observed += round(sum(task.other)) * unit // len(task.other)
        observed -= round(sum(task.baseline)) * unit // len(task.baseline)
    distance = numpy.abs(lowest + lattice.stride * numpy.arange(len(chances)))
    beyond = float(chances[distance > abs(observed)].sum())
    return min(1.0, beyond + float(chances[distance == abs(observed)].sum()) / 2)


def _power(chances: "Sums", count: int) -> "Sums":
    """Chances of the sum of so many alike, by squaring."""
    numpy = import_module("numpy")
    whole = numpy.ones(1)
    while count:
        if count % 2:
            whole = numpy.convolve(whole, chances)
        count //= 2
        if count:
            chances = numpy.convolve(chances, chances)
    powered: Sums = whole
    return powered


def _permuted_sums(tasks: Sequence[Contrast]) -> "Sums":
    """Sums of differences with every task's scores dealt out anew."""
    numpy = import_module("numpy")
    random = numpy.random.default_rng(SEED)
    sums: Sums = numpy.zeros(DRAWS)
    for task in tasks:
        scores = numpy.tile(numpy.array([*task.baseline, *task.other]), (DRAWS, 1))
        dealt = random.permuted(scores, axis=1)
        cut = len(task.baseline)
        sums += dealt[:, cut:].mean(axis=1) - dealt[:, :cut].mean(axis=1)
    return sums


def _all_sums(values: Sequence[float]) -> "Sums":
    numpy = import_module("numpy")
    sums: Sums = numpy.zeros(1)
    for value in values:
        sums = numpy.concatenate([sums + value, sums - value])
    return sums


def _drawn_sums(values: Sequence[float]) -> "Sums":
    numpy = import_module("numpy")
    random = numpy.random.default_rng(SEED)
    signs = 2.0 * random.integers(0, 2, size=(DRAWS, len(values)), dtype="int8") - 1.0
    sums: Sums = signs @ numpy.array(values)
    return sums
