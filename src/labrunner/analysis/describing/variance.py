"""How much scores differ within tasks and between them, and what a run can see because of it.

Add replications where the difference within tasks is large, add tasks where the one between them is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from labrunner.analysis.inference.distributions import noncentral_t_cdf, t_quantile
from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell

ALPHA: Final = 0.05
POWER: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """Variance of single scores within a task, and of tasks' true means."""

    within: float
    between: float
    """Never below 0, though its estimate may be."""
    tasks: int
    """Tasks with a graded trial."""
    repeated: int
    """Tasks with two or more: `within` comes from these."""
    mean_inverse_graded: float
    """Mean of 1/K over tasks, K being a task's graded trials."""

    @property
    def icc(self) -> float | None:
        """Share of the variance that lies between tasks."""
        whole = self.within + self.between
        return self.between / whole if whole else None


def split_variance(cells: Sequence[Cell], measure: Measure) -> VarianceSplit | None:
    """Split the variance of scores; None with fewer than two tasks, or no task that was repeated."""
    graded = [cell for cell in cells if cell.graded]
    repeated = [cell for cell in graded if cell.graded > 1]
    if len(graded) < 2 or not repeated:
        return None
    within = math.fsum(measure.spread(cell) / (cell.graded - 1) for cell in repeated) / len(repeated)
    inverse = math.fsum(1 / cell.graded for cell in graded) / len(graded)
    means = [measure.total(cell) / cell.graded for cell in graded]
    return VarianceSplit(
        within=within,
        between=max(0.0, sample_variance(means) - within * inverse),
        tasks=len(graded),
        repeated=len(repeated),
        mean_inverse_graded=inverse,
    )


def sample_variance(values: Sequence[float]) -> float:
    """Variance with n - 1 in the denominator."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def detectable(standard_error: float, freedom: float, family: int = 1) -> float:
    """The true difference that a two-sided t test at 5% shows four times out of five.

    Of several comparisons Holm lets the first pass that is sure enough for its share of the 5%, whatever the
    others show: so much is promised of each.
    """
    return required_shift(freedom, alpha=ALPHA / family) * standard_error


@cache
def required_shift(freedom: float, power: float = POWER, alpha: float = ALPHA) -> float:
    """By how many standard errors the truth must differ from zero: where the noncentral t has this power."""
    limit = t_quantile(freedom, 1 - alpha / 2)
    low, high = 0.0, 2.0 * limit + 10.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if noncentral_t_cdf(freedom, middle, limit) > 1 - power:
            low = middle
        else:
            high = middle
    return high
