"""Agents that ended unusually fast, without passing, all within one stretch of time: an outage, perhaps.

A provider that fails politely makes agents give up at once, and the grader then fails them. That looks like
a bad agent, and is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from labrunner.analysis.expense import VariantExpense

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]

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


def find_outage(variants: Mapping[str, VariantExpense]) -> Outage | None:
    """The longest such stretch, over all variants, unless chance would explain it."""
    if sum(expense.trials for expense in variants.values()) < FEWEST:
        return None
    numpy = import_module("numpy")
    ends = [_judge(expense.ends()) for expense in variants.values()]
    at, agent_s, is_odd = (numpy.concatenate(column) for column in zip(*ends, strict=True))
    order = numpy.argsort(at, kind="stable")
    is_odd = is_odd[order]
    start, length = _longest_stretch(is_odd)
    others = len(is_odd) - length
    # With none other like it the rate is not zero, only small.
    rate = (int(is_odd.sum()) - length + 1) / (others + 2)
    expected = len(is_odd) * rate**length
    if length < FEWEST or expected > RARE:
        return None
    stretch = order[start : start + length]
    return Outage(
        trials=length,
        began_at=float(at[stretch[0]]),
        ended_at=float(at[stretch[-1]]),
        longest_agent_s=float(agent_s[stretch].max()),
        expected=expected,
    )


def _longest_stretch(is_odd: "Flags") -> tuple[int, int]:
    """Where the longest row of odd ends begins, and how long it is."""
    numpy = import_module("numpy")
    padded = numpy.concatenate([[False], is_odd, [False]])
    changes = numpy.flatnonzero(padded[1:] != padded[:-1])
    starts, lengths = changes[::2], changes[1::2] - changes[::2]
    if not len(lengths):
        return 0, 0
    longest = int(lengths.argmax())
    return int(starts[longest]), int(lengths[longest])


def _judge(ends: "Numbers") -> "tuple[Numbers, Numbers, Flags]":
    """When each trial ended, how long its agent ran, and whether that is odd; where both are known."""
    numpy = import_module("numpy")
    at, agent_s, has_passed = ends[~numpy.isnan(ends).any(axis=1)].T
    median = float(numpy.median(agent_s)) if len(agent_s) else 0.0
    limit = FAST * median if median >= SLOW_ENOUGH_S else 0.0
    return at, agent_s, (agent_s < limit) & (has_passed == 0)
