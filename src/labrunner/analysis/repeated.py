"""Repeated success: pass@k (any of k tries passes) and pass^k (all of k do).

Rules: the unbiased estimators, task by task, averaged over tasks; only for k up to the smallest number of
graded trials of any task. The mean rate is never put into p^k: where tasks differ, that understates it.
Intervals are percentiles of a bootstrap over tasks (groups of tasks where they are named), seeded.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from labrunner.analysis.tally import Cell

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[Any, np.dtype[np.float64]]

DRAWS: Final = 2_000
SEED: Final = 20_260_101
LEVEL: Final = 0.95
_ALL_UP_TO: Final = 10
_STEPS: Final = (20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """A figure with its bootstrap interval; None where data can't carry one: one unit, or all alike."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Repeated success in k tries."""

    k: int
    any_passes: Bounded
    """pass@k."""
    all_pass: Bounded
    """pass^k."""
    tasks: int
    units: int
    draws: int
    seed: int


def pass_at_k(passed: int, graded: int, k: int) -> float:
    """Chance that any of k trials, drawn from the graded ones without replacement, passed."""
    return 1.0 - math.comb(graded - passed, k) / math.comb(graded, k)


def pass_all_k(passed: int, graded: int, k: int) -> float:
    """Chance that all of k trials, drawn from the graded ones without replacement, passed."""
    return math.comb(passed, k) / math.comb(graded, k)


def repeated_success(cells: Mapping[str, Cell], groups: Mapping[str, str | None]) -> tuple[Repeated, ...]:
    """Both figures for every k that all tasks can carry; none when some task was graded only once."""
    graded = {task_id: cell for task_id, cell in cells.items() if cell.graded}
    fewest = min((cell.graded for cell in graded.values()), default=0)
    if fewest < 2:
        return ()
    units = _count_units(graded, groups)
    shapes = sorted({(cell.passed, cell.graded) for cell in graded.values()})
    chosen = _choose(fewest)
    columns = [
        [score(passed, count, k) for passed, count in shapes]
        for k in chosen
        for score in (pass_at_k, pass_all_k)
    ]
    figures = _bootstrap(units, shapes, columns)
    return tuple(
        Repeated(
            k=k,
            any_passes=figures[2 * number],
            all_pass=figures[2 * number + 1],
            tasks=len(graded),
            units=len(units),
            draws=DRAWS,
            seed=SEED,
        )
        for number, k in enumerate(chosen)
    )


def _choose(fewest: int) -> list[int]:
    steps = [k for k in _STEPS if k < fewest]
    return [*range(1, min(fewest, _ALL_UP_TO) + 1), *steps, *([fewest] if fewest > _ALL_UP_TO else [])]


_Shape = tuple[int, int]
"""Passed and graded trials of a task: tasks of the same shape are alike in every figure here."""


def _count_units(cells: Mapping[str, Cell], groups: Mapping[str, str | None]) -> list[Counter[_Shape]]:
    """The units that are drawn: shapes of the tasks in each group; a task without one stands alone."""
    units: dict[tuple[str, bool], Counter[_Shape]] = {}
    for task_id, cell in cells.items():
        group = groups.get(task_id)
        key = (task_id, False) if group is None else (group, True)
        units.setdefault(key, Counter())[cell.passed, cell.graded] += 1
    return list(units.values())


def _bootstrap(
    units: Sequence[Counter[_Shape]], shapes: Sequence[_Shape], columns: Sequence[Sequence[float]]
) -> list[Bounded]:
    """Average every column over tasks, and over tasks of drawn units."""
    numpy = import_module("numpy")
    scores = numpy.array(columns).T
    kinds = Counter(frozenset(unit.items()) for unit in units)
    weights = numpy.array([_weights(dict(kind), shapes) for kind in kinds], dtype=float)
    whole = numpy.array(list(kinds.values())) @ weights
    values = whole @ scores / whole.sum()
    if len(units) < 2:
        return [Bounded(value=float(value), low=None, high=None) for value in values]
    drawn = _draw(list(kinds.values())) @ weights
    means = drawn @ scores / drawn.sum(axis=1, keepdims=True)
    low, high = numpy.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return [_bound(*map(float, figure)) for figure in zip(values, low, high, strict=True)]


def _bound(value: float, low: float, high: float) -> Bounded:
    """Where every draw gives the same there is no spread to tell an interval from, and none of no width."""
    return (
        Bounded(value=value, low=None, high=None) if low == high else Bounded(value=value, low=low, high=high)
    )


def _draw(kinds: Sequence[int]) -> "Matrix":
    """How many units of each kind are in each draw.

    Drawing n units with replacement and counting their kinds is one multinomial draw over kinds, so
    the cost does not grow with the number of tasks where these are alike.
    """
    numpy = import_module("numpy")
    units = sum(kinds)
    draws: Matrix = numpy.random.default_rng(SEED).multinomial(units, numpy.array(kinds) / units, size=DRAWS)
    return draws


def _weights(counted: Mapping[_Shape, int], shapes: Sequence[_Shape]) -> list[int]:
    return [counted.get(shape, 0) for shape in shapes]
