"""Repeated success: pass@k (any of k tries passes) and pass^k (all of k do).

Rules: the unbiased estimators, task by task, averaged over tasks; only for k up to the smallest number of
graded trials of any task. The mean rate is never put into p^k: where tasks differ, that understates it.
Intervals are those of a mean rate (`labrunner.analysis.inference.interval`), so that of pass@1 is the mean's
own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.inference.interval import Interval, TaskMean, mean_interval
from labrunner.analysis.inference.rerun import rerun_interval
from labrunner.analysis.sums.tally import Cell
from labrunner.experiment.resolved import Population

_ALL_UP_TO: Final = 10
_STEPS: Final = (20, 50, 100, 200, 500, 1000)
FEWEST_UNITS: Final = 10
"""With fewer tasks or groups no interval is told of more than one try: none would hold its level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """A figure with its interval; None where data can't carry one."""

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


def pass_at_k(passed: int, graded: int, k: int) -> float:
    """Chance that any of k trials, drawn from the graded ones without replacement, passed."""
    return 1.0 - math.comb(graded - passed, k) / math.comb(graded, k)


def pass_all_k(passed: int, graded: int, k: int) -> float:
    """Chance that all of k trials, drawn from the graded ones without replacement, passed."""
    return math.comb(passed, k) / math.comb(graded, k)


def repeated_success(
    cells: Mapping[str, Cell],
    groups: Mapping[str, str | None],
    population: Population = "tasks_like_these",
) -> tuple[Repeated, ...]:
    """Both figures for every k that all tasks can carry; none when some task was graded only once.

    About these tasks only one try has an interval: of more, too few were made of any task.
    """
    graded = {task_id: cell for task_id, cell in cells.items() if cell.graded}
    fewest = min((cell.graded for cell in graded.values()), default=0)
    if fewest < 2:
        return ()
    shapes = {(cell.passed, cell.graded) for cell in graded.values()}
    units = len(
        {(task_id, False) if (group := groups.get(task_id)) is None else (group, True) for task_id in graded}
    )
    tries = _Tries(cells=graded, groups=groups, units=units, population=population)
    return tuple(
        Repeated(
            k=k,
            any_passes=tries.bound(k, {s: pass_at_k(*s, k) for s in shapes}),
            all_pass=tries.bound(k, {s: pass_all_k(*s, k) for s in shapes}),
            tasks=len(graded),
            units=units,
        )
        for k in _choose(fewest)
    )


def _choose(fewest: int) -> list[int]:
    steps = [k for k in _STEPS if k < fewest]
    return [*range(1, min(fewest, _ALL_UP_TO) + 1), *steps, *([fewest] if fewest > _ALL_UP_TO else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tries:
    """Tasks that were tried several times."""

    cells: Mapping[str, Cell]
    groups: Mapping[str, str | None]
    units: int
    population: Population

    def bound(self, k: int, scores: Mapping[tuple[int, int], float]) -> Bounded:
        """The average over tasks, and its interval: k trials are one try."""
        tasks = [
            TaskMean(
                mean=scores[cell.passed, cell.graded], graded=cell.graded / k, group=self.groups.get(task_id)
            )
            for task_id, cell in self.cells.items()
        ]
        interval = self._ask(tasks, k)
        return Bounded(
            value=math.fsum(task.mean for task in tasks) / len(tasks),
            low=interval.low if interval else None,
            high=interval.high if interval else None,
        )

    def _ask(self, tasks: Sequence[TaskMean], k: int) -> Interval | None:
        if self.population == "these_tasks":
            return rerun_interval(tasks, is_rate=True) if k == 1 else None
        return mean_interval(tasks, is_rate=True) if k == 1 or self.units >= FEWEST_UNITS else None
