"""Agents that ended unusually fast, without passing, all within one stretch of time: an outage, perhaps.

A provider that fails politely makes agents give up at once, and the grader then fails them. That looks like
a bad agent, and is none.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from labrunner.analysis.expense import VariantExpense, quantile

FAST: Final = 0.1
"""Faster than this share of the variant's median."""
FEWEST: Final = 8
SLOW_ENOUGH_S: Final = 1.0
"""A median below this says nothing about agents that think."""
RARE: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A stretch of trials that ended one after another, fast and without passing."""

    trials: int
    began_at: float
    ended_at: float
    """Seconds since 1970, when the first and the last of them ended."""
    longest_agent_s: float
    expected: float
    """How many stretches this long chance would make, given how often agents end like that otherwise."""


@dataclass(frozen=True, slots=True)
class _End:
    at: float
    agent_s: float
    is_odd: bool


def find_outage(variants: Mapping[str, VariantExpense]) -> Outage | None:
    """The longest such stretch, over all variants, unless chance would explain it."""
    ends = sorted((end for expense in variants.values() for end in _ends(expense)), key=lambda end: end.at)
    stretches = [list(run) for is_odd, run in groupby(ends, key=lambda end: end.is_odd) if is_odd]
    if not stretches:
        return None
    longest = max(stretches, key=len)
    others = len(ends) - len(longest)
    odd_others = sum(len(stretch) for stretch in stretches) - len(longest)
    # With none other like it the rate is not zero, only small.
    rate = (odd_others + 1) / (others + 2)
    expected = len(ends) * rate ** len(longest)
    if len(longest) < FEWEST or expected > RARE:
        return None
    return Outage(
        trials=len(longest),
        began_at=longest[0].at,
        ended_at=longest[-1].at,
        longest_agent_s=max(end.agent_s for end in longest),
        expected=expected,
    )


def _ends(expense: VariantExpense) -> Sequence[_End]:
    known = [
        (at, agent_s, has_passed)
        for at, agent_s, has_passed in zip(expense.ended_at, expense.agent_s, expense.has_passed, strict=True)
        if not math.isnan(at) and not math.isnan(agent_s)
    ]
    if not known:
        return ()
    median = quantile(sorted(agent_s for _, agent_s, _ in known), 0.5)
    limit = FAST * median if median >= SLOW_ENOUGH_S else 0.0
    return [_End(at, agent_s, is_odd=agent_s < limit and not has_passed) for at, agent_s, has_passed in known]
