"""Two arms on the same tasks: which tasks pair up, and which are dropped, with why.

An arm is a variant of a run. A task pairs with itself: the same id and, across runs, the same content.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell, VariantTally
from labrunner.experiment.resolved import Population

NAMED: Final = 20
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One side of a comparison."""

    name: str
    """What people call it: a variant's id; with the run's in front where several runs are compared."""
    variant_id: str
    tally: VariantTally
    groups: Mapping[str, str | None]
    """Every task that was planned, with its group."""
    digests: Mapping[str, str]
    """Digests of the tasks' contents."""
    population: Population = "tasks_like_these"
    """What its run's conclusions speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTask:
    """One task on both sides."""

    task_id: str
    group: str | None
    baseline: Cell
    other: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Tasks that can't be paired, all for one reason."""

    why: str
    count: int
    first: tuple[str, ...]
    """The first of them, in the order of the tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """What two arms share."""

    tasks: tuple[PairedTask, ...]
    """Tasks with a finished trial on both sides."""
    dropped: tuple[Dropped, ...]

    @property
    def unit(self) -> str:
        """What is independent: tasks, or the groups that they name."""
        return "groups" if any(task.group is not None for task in self.tasks) else "tasks"


def pair_up(baseline: Arm, other: Arm) -> Pairing:
    """Pair the tasks of two arms."""
    shared: list[PairedTask] = []
    lost: dict[str, list[str]] = {}
    for task_id in {**baseline.groups, **other.groups}:
        why = _why_not(baseline, other, task_id)
        if why is not None:
            lost.setdefault(why, []).append(task_id)
        if (
            _is_finished(baseline, task_id)
            and _is_finished(other, task_id)
            and not _differ(baseline, other, task_id)
        ):
            shared.append(
                PairedTask(
                    task_id=task_id,
                    group=baseline.groups.get(task_id),
                    baseline=baseline.tally.cells[task_id],
                    other=other.tally.cells[task_id],
                )
            )
    dropped = [Dropped(why=why, count=len(ids), first=tuple(ids[:NAMED])) for why, ids in lost.items()]
    return Pairing(tasks=tuple(shared), dropped=tuple(dropped))


Scored = tuple[PairedTask, float]
"""A task, and the other side's score minus the baseline's."""


def differences(pairing: Pairing, measure: Measure) -> list[Scored]:
    """Differences of the tasks that are graded on both sides."""
    return _subtract(pairing.tasks, measure.mean, measure.mean)


def extreme_differences(
    pairing: Pairing,
    measure: Measure,
    *,
    ends: tuple[float, float],
    errors: bool = False,
    retried: bool = False,
) -> list[Scored]:
    """Differences with errored (or retried) trials of the two sides scored as `ends` says."""

    def score(value: float) -> Callable[[Cell], float | None]:
        return lambda cell: measure.mean_with(
            cell, errors=value if errors else None, retried=value if retried else None
        )

    return _subtract(pairing.tasks, score(ends[0]), score(ends[1]))


def sum_by_unit(scored: Sequence[Scored]) -> list[float]:
    """Sums of differences by group; a task without one stands alone."""
    sums: dict[tuple[str, bool], float] = {}
    for task, difference in scored:
        key = (task.task_id, False) if task.group is None else (task.group, True)
        sums[key] = sums.get(key, 0.0) + difference
    return list(sums.values())


def _subtract(
    tasks: Sequence[PairedTask],
    baseline_score: Callable[[Cell], float | None],
    other_score: Callable[[Cell], float | None],
) -> list[Scored]:
    scored = []
    for task in tasks:
        before, after = baseline_score(task.baseline), other_score(task.other)
        if before is not None and after is not None:
            difference = after - before
            # Sums in another order differ in their last digits: that is no difference.
            is_even = abs(difference) <= _ROUNDING * max(abs(before), abs(after))
            scored.append((task, 0.0 if is_even else difference))
    return scored


def _why_not(baseline: Arm, other: Arm, task_id: str) -> str | None:
    """Why a task has no observed difference; None when it has one."""
    for arm in (baseline, other):
        if task_id not in arm.groups:
            return f"not among the tasks of {arm.name}"
    if _differ(baseline, other, task_id):
        return "its content is not the same on both sides"
    empty = [arm.name for arm in (baseline, other) if not _is_graded(arm, task_id)]
    return f"no graded trial of {' and '.join(empty)}" if empty else None


def _differ(baseline: Arm, other: Arm, task_id: str) -> bool:
    return baseline.digests.get(task_id) != other.digests.get(task_id)


def _is_graded(arm: Arm, task_id: str) -> bool:
    cell = arm.tally.cells.get(task_id)
    return cell is not None and cell.graded > 0


def _is_finished(arm: Arm, task_id: str) -> bool:
    return task_id in arm.tally.cells
