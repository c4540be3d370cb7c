"""Money per solved task, with its interval; and which variants are worth their money.

Rules: money of all attempts counts, failures included; a trial that does not tell what it cost is left out
on both sides. Solved are trials that passed. The interval is Fieller's for a ratio, with tasks (or groups)
as the unit: where so little was solved that nothing bounds the price, it has no upper end.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labrunner.analysis.inference.distributions import t_quantile
from labrunner.analysis.inference.interval import LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a solved task costs."""

    cost_usd: float
    """All that was spent."""
    solved: int
    value: float | None
    """None where nothing was solved."""
    low: float | None
    high: float | None
    """None where nothing bounds it, or data can't carry an interval."""
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One variant's quality and cost."""

    variant_id: str
    mean: float
    cost_usd: float
    """Mean cost of a trial, all attempts."""
    dominated_by: tuple[str, ...]
    """Variants that are no worse and no dearer, and better in one of the two, by these figures."""


def price_success(spent: Mapping[str, tuple[float, int]], groups: Mapping[str, str | None]) -> Price | None:
    """The price of a success from what each task cost and how often it was solved; None if nobody tells."""
    if not spent:
        return None
    units: dict[tuple[str, bool], tuple[float, int]] = {}
    for task_id, (cost, solved) in spent.items():
        group = groups.get(task_id)
        key = (task_id, False) if group is None else (group, True)
        before = units.get(key, (0.0, 0))
        units[key] = (before[0] + cost, before[1] + solved)
    costs, passes = [cost for cost, _ in units.values()], [solved for _, solved in units.values()]
    total, count = math.fsum(costs), sum(passes)
    low, high = _fieller(costs, passes) if count and len(units) > 1 else (None, None)
    return Price(
        cost_usd=total,
        solved=count,
        value=total / count if count else None,
        low=low,
        high=high,
        units=len(units),
    )


def rank(variants: Sequence[tuple[str, float, float]], *, is_lower_better: bool) -> tuple[Standing, ...]:
    """Which of (name, mean, cost) are dominated, and by whom."""
    sign = -1 if is_lower_better else 1

    def beats(one: tuple[str, float, float], other: tuple[str, float, float]) -> bool:
        better, cheaper = sign * (one[1] - other[1]), other[2] - one[2]
        return better >= 0 and cheaper >= 0 and (better > 0 or cheaper > 0)

    return tuple(
        Standing(
            variant_id=each[0],
            mean=each[1],
            cost_usd=each[2],
            dominated_by=tuple(other[0] for other in variants if beats(other, each)),
        )
        for each in variants
    )


def _fieller(costs: Sequence[float], passes: Sequence[int]) -> tuple[float | None, float | None]:
    """Both ends of the ratio's interval: where the difference of cost and ratio x passes may be zero."""
    n = len(costs)
    x, y = math.fsum(costs) / n, sum(passes) / n
    scale = t_quantile(n - 1, (1 + LEVEL) / 2) ** 2 / (n * (n - 1))
    var_x = scale * math.fsum((cost - x) ** 2 for cost in costs)
    var_y = scale * math.fsum((count - y) ** 2 for count in passes)
    both = scale * math.fsum((cost - x) * (count - y) for cost, count in zip(costs, passes, strict=True))
    a, b, c = y * y - var_y, x * y - both, x * x - var_x
    root = b * b - a * c
    if a <= 0:
        return None, None
    half = math.sqrt(max(0.0, root))
    return max(0.0, (b - half) / a), (b + half) / a
