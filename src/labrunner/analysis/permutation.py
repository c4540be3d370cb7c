"""p-values for paired differences.

Under the hypothesis of no difference each unit's difference is as likely to have had the other sign. The
statistic is the sum over units. Units that do not differ change nothing and are left out.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from labrunner.analysis.distributions import binomial_cdf

if TYPE_CHECKING:
    import numpy as np

    Sums = np.ndarray[Any, np.dtype[np.float64]]

EXACT_UP_TO: Final = 20
DRAWS: Final = 10_000
SEED: Final = 20_260_102
_ROUNDING: Final = 1e-9
"""Sums this close, relative to the largest, are the same: differences of rates are not exact in binary."""
_BLOCK: Final = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PValue:
    """A two-sided p-value and how it was found."""

    value: float
    method: str
    differing: int
    """Units that differ."""
    draws: int | None = None
    seed: int | None = None


def sign_flip(differences: Sequence[float], unit: str = "tasks") -> PValue:
    """Sign-flip permutation test: every assignment of signs up to 20 units that differ, else seeded draws."""
    values = [abs(value) for value in differences if value != 0.0]
    observed = abs(sum(differences)) - _ROUNDING * sum(values)
    if len(values) <= EXACT_UP_TO:
        sums = _all_sums(values)
        share = float((abs(sums) >= observed).mean()) if values else 1.0
        return PValue(value=share, method=f"exact sign-flip over {unit}", differing=len(values))
    sums = _drawn_sums(values)
    extreme = int((abs(sums) >= observed).sum())
    return PValue(
        value=(extreme + 1) / (DRAWS + 1),
        method=f"sign-flip over {unit}, {DRAWS} draws, seed {SEED}",
        differing=len(values),
        draws=DRAWS,
        seed=SEED,
    )


def mcnemar(wins: int, losses: int) -> PValue:
    """Exact McNemar test from the two discordant counts."""
    differing = wins + losses
    tail = binomial_cdf(min(wins, losses), differing, 0.5) if differing else 1.0
    return PValue(value=min(1.0, 2 * tail), method="exact McNemar", differing=differing)


def adjust_holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment, in the order given."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = highest
    return tuple(adjusted)


def _all_sums(values: Sequence[float]) -> "Sums":
    numpy = import_module("numpy")
    sums: Sums = numpy.zeros(1)
    for value in values:
        sums = numpy.concatenate([sums + value, sums - value])
    return sums


def _drawn_sums(values: Sequence[float]) -> "Sums":
    """Sums with random signs. Those of equal values are drawn together: a binomial number is positive."""
    numpy = import_module("numpy")
    random = numpy.random.default_rng(SEED)
    counts = Counter(round(value, 12) for value in values)
    sums: Sums = numpy.zeros(DRAWS)
    for value, count in counts.items():
        if count > 1:
            sums += value * (2.0 * random.binomial(count, 0.5, size=DRAWS) - count)
    alone = numpy.array([value for value, count in counts.items() if count == 1])
    step = max(1, _BLOCK // DRAWS)
    for start in range(0, len(alone), step):
        block = alone[start : start + step]
        signs = 2.0 * random.integers(0, 2, size=(DRAWS, len(block)), dtype="int8") - 1.0
        sums += signs @ block
    return sums
