"""Before a run: which difference will so many tasks and replications show, given a pilot's variances?

The smallest true difference that a two-sided test at 5% shows with 80% power is
(z(0.975) + z(0.8)) * sqrt((w2 + sA/K + sB/K) / n): n tasks, K replications, sA and sB the variances within
tasks of the two arms, w2 the variance between tasks of the arms' true difference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.measure import choose_measure
from labrunner.analysis.pairing import Arm, differences, pair_up
from labrunner.analysis.variance import detectable, sample_variance, split_variance

TASKS: Final = (20, 50, 100, 200, 500)
REPLICATIONS: Final = (1, 3, 5, 10)
CORRELATION: Final = 0.8
"""Assumed between the true means of two arms where the pilot has only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """Variances of a pair of arms."""

    baseline: str
    other: str | None
    """None: the pilot has one arm; a second one like it is assumed."""
    measure: str
    tasks: int
    within: float | None
    """Sum of both arms' variances within tasks. None: no task was repeated, so it can't be told apart."""
    between: float
    """Variance between tasks of the true difference; of the observed one where `within` is None."""
    correlation: float | None
    """Assumed, where the pilot has one arm."""

    def detectable(self, tasks: int, replications: int) -> float | None:
        """What so many tasks and replications would show; None where the pilot can't tell."""
        if self.within is None:
            return detectable(math.sqrt(self.between / tasks)) if replications == 1 else None
        return detectable(math.sqrt((self.between + self.within / replications) / tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerGrid:
    """What each number of tasks and replications detects."""

    pilot: Pilot
    replications: tuple[int, ...]
    rows: tuple[tuple[int, tuple[float | None, ...]], ...]
    """Tasks, and the detectable difference for each number of replications."""
    planned_tasks: int
    planned_replications: int
    planned: float | None
    """What the plan itself detects."""


def estimate_pilots(arms: Sequence[Arm]) -> tuple[Pilot, ...]:
    """Estimate what a pilot run can tell: each arm against the first; or the only one against its like."""
    if len(arms) == 1:
        found = [_estimate_alone(arms[0])]
    else:
        found = [_estimate_pair(arms[0], other) for other in arms[1:]]
    return tuple(pilot for pilot in found if pilot is not None)


def make_grid(pilot: Pilot, *, tasks: int, replications: int) -> PowerGrid:
    """Compute the grid around a plan."""
    columns = tuple(sorted({*REPLICATIONS, replications}))
    rows = tuple(
        (count, tuple(pilot.detectable(count, each) for each in columns)) for count in sorted({*TASKS, tasks})
    )
    return PowerGrid(
        pilot=pilot,
        replications=columns,
        rows=rows,
        planned_tasks=tasks,
        planned_replications=replications,
        planned=pilot.detectable(tasks, replications),
    )


def _estimate_pair(baseline: Arm, other: Arm) -> Pilot | None:
    measure = choose_measure(baseline.tally, other.tally)
    scored = differences(pair_up(baseline, other), measure)
    if len(scored) < 2:
        return None
    observed = sample_variance([difference for _, difference in scored])
    sides = [
        split_variance([task.baseline for task, _ in scored], measure),
        split_variance([task.other for task, _ in scored], measure),
    ]
    known = [side for side in sides if side is not None]
    is_split = len(known) == len(sides)
    noise = sum(side.within * side.mean_inverse_graded for side in known)
    return Pilot(
        baseline=baseline.name,
        other=other.name,
        measure=measure.name,
        tasks=len(scored),
        within=sum(side.within for side in known) if is_split else None,
        between=max(0.0, observed - noise) if is_split else observed,
        correlation=None,
    )


def _estimate_alone(arm: Arm) -> Pilot | None:
    measure = choose_measure(arm.tally)
    split = split_variance(list(arm.tally.cells.values()), measure)
    if split is None:
        return None
    return Pilot(
        baseline=arm.name,
        other=None,
        measure=measure.name,
        tasks=split.tasks,
        within=2 * split.within,
        between=2 * split.between * (1 - CORRELATION),
        correlation=CORRELATION,
    )
