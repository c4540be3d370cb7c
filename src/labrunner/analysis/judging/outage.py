"""Agents that ended unusually fast, without passing, all within one stretch of time: an outage, perhaps.

A provider that fails politely makes agents give up at once, and the grader then fails them. That looks like
a bad agent, and is none. So do tasks on which an agent always gives up at once: where such a task has trials
at other times too, these tell the two apart; and a stretch counts by its different tasks, not by its trials.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from labrunner.analysis.sums.expense import VariantExpense

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]

FAST: Final = 0.1
"""Faster than this share of the variant's slow trials."""
SLOW_SHARE: Final = 0.95
"""The quantile of a variant's times that stands for its slow trials: an outage may have hit nearly all."""
FEWEST: Final = 8
FEWEST_TASKS: Final = 4
SLOW_ENOUGH_S: Final = 1.0
"""Slow trials faster than this say nothing about agents that think."""
RARE: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A stretch of trials that began one after another, and ended fast and without passing."""

    trials: int
    tasks: int
    """Different tasks among them."""
    began_at: float
    ended_at: float
    """Seconds since 1970, when the first and the last of them ended."""
    longest_agent_s: float
    expected: float
    """How many stretches over so many tasks chance would make, given how often agents end so otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Trials in the order in which their agents began."""

    at: "Numbers"
    agent_s: "Numbers"
    task: "Numbers"
    variant: "Numbers"
    is_odd: "Flags"


def find_outage(variants: Mapping[str, VariantExpense]) -> Outage | None:
    """The stretch over the most tasks, unless chance, or these tasks themselves, would explain it."""
    if sum(expense.trials for expense in variants.values()) < FEWEST:
        return None
    ends = _gather(variants)
    start, length = _longest_stretch(ends.is_odd)
    if length < FEWEST:
        return None
    numpy = import_module("numpy")
    inside = numpy.zeros(len(ends.is_odd), dtype=bool)
    inside[start : start + length] = True
    inside &= ~_explained(ends, inside)
    trials, tasks = int(inside.sum()), len(set(ends.task[inside].tolist()))
    others = len(inside) - length
    # With none other like it the rate is not zero, only small.
    rate = (int(ends.is_odd.sum()) - length + 1) / (others + 2)
    expected = len(inside) * rate**tasks
    if trials < FEWEST or tasks < FEWEST_TASKS or expected > RARE:
        return None
    return Outage(
        trials=trials,
        tasks=tasks,
        began_at=float(ends.at[inside].min()),
        ended_at=float(ends.at[inside].max()),
        longest_agent_s=float(ends.agent_s[inside].max()),
        expected=expected,
    )


def _explained(ends: _Ends, inside: "Flags") -> "Flags":
    """Trials of a task on which the same variant gives up at other times too."""
    numpy = import_module("numpy")
    pairs = {
        (variant, task)
        for variant, task in zip(ends.variant[inside].tolist(), ends.task[inside].tolist(), strict=True)
    }
    outside: dict[tuple[float, float], list[bool]] = {}
    for number in numpy.flatnonzero(~inside):
        pair = (float(ends.variant[number]), float(ends.task[number]))
        if pair in pairs:
            outside.setdefault(pair, []).append(bool(ends.is_odd[number]))
    giving_up = {pair for pair, odd in outside.items() if 2 * sum(odd) > len(odd)}
    explained: Flags = numpy.array(
        [pair in giving_up for pair in zip(ends.variant.tolist(), ends.task.tolist(), strict=True)]
    )
    return explained


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


def _gather(variants: Mapping[str, VariantExpense]) -> _Ends:
    numpy = import_module("numpy")
    columns = [_judge(expense.ends(), number) for number, expense in enumerate(variants.values())]
    at, agent_s, task, variant, is_odd = (numpy.concatenate(column) for column in zip(*columns, strict=True))
    order = numpy.argsort(at - agent_s, kind="stable")
    return _Ends(
        at=at[order],
        agent_s=agent_s[order],
        task=task[order],
        variant=variant[order],
        is_odd=is_odd[order].astype(bool),
    )


def _judge(ends: "Numbers", number: int) -> "tuple[Numbers, ...]":
    """What is known of one variant's trials, and whether each ended oddly."""
    numpy = import_module("numpy")
    at, agent_s, has_passed, task = ends[~numpy.isnan(ends).any(axis=1)].T
    slow = float(numpy.quantile(agent_s, SLOW_SHARE)) if len(agent_s) else 0.0
    limit = FAST * slow if slow >= SLOW_ENOUGH_S else 0.0
    is_odd = (agent_s < limit) & (has_passed == 0)
    return at, agent_s, task, numpy.full(len(at), float(number)), is_odd
