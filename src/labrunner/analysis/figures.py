"""One variant's figures, each with the inputs that it was computed from.

Rules: a mean is the average of task means, so that every task weighs the same; errors are never zeros and
never vanish: `lower` counts them as 0, `observed` leaves them out, `upper` counts them as 1.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec

from labrunner.analysis.interval import Interval, TaskMean, mean_interval
from labrunner.analysis.tally import Cell, Tally, VariantTally

NAMED_TASKS: Final = 20
PASS: Final = "pass"
"""Name of the measure that averages verdicts, used where primary metrics differ from row to row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is known about one variant so far."""

    variant_id: str
    planned: int
    graded: int
    passed: int
    failed: int
    errors: int
    causes: dict[str, int]
    ended_by: dict[str, int]
    flags: dict[str, int]
    retried: int
    attempts: int
    tasks: int
    """Tasks with a graded trial: the n behind the means."""
    tasks_planned: int
    ungraded_tasks: int
    """Tasks without a graded trial."""
    first_ungraded: tuple[str, ...]
    """The first of them, by id."""
    measure: str
    """What `observed` averages: the primary metric, or `pass`."""
    observed: float | None
    lower: float | None
    """None, like `upper`, where the measure is not on a scale from 0 to 1."""
    upper: float | None
    interval: Interval | None
    pass_rate: float | None

    @property
    def finished(self) -> int:
        """Trials that are final."""
        return self.graded + self.errors

    @property
    def missing(self) -> int:
        """Planned and not finished."""
        return max(0, self.planned - self.finished)

    @property
    def coverage(self) -> float | None:
        """Share of the planned trials that have a grade."""
        return self.graded / self.planned if self.planned else None

    @property
    def is_valid(self) -> bool:
        """Whether every task has at least one grade: otherwise the mean speaks of easier tasks only."""
        return self.ungraded_tasks == 0


def compute_all(
    tally: Tally, planned: Mapping[str, int], *, with_intervals: bool = True
) -> tuple[Figures, ...]:
    """Compute the figures of every variant in `planned`, which names their numbers of slots, in order."""
    return tuple(
        compute_figures(tally, variant_id, slots, with_interval=with_intervals)
        for variant_id, slots in planned.items()
    )


def compute_figures(tally: Tally, variant_id: str, planned: int, *, with_interval: bool) -> Figures:
    """Compute one variant's figures; without the interval, nothing heavy is loaded."""
    variant = tally.variants.get(variant_id, VariantTally())
    measure = _choose_measure(variant)
    sum_of = _sum_of(measure)
    graded = {task_id: cell for task_id, cell in variant.cells.items() if cell.graded}
    ungraded = [task_id for task_id in tally.groups if task_id not in graded]
    bounded = measure == PASS or (variant.lowest >= 0.0 and variant.highest <= 1.0)
    return Figures(
        variant_id=variant_id,
        planned=planned,
        graded=variant.graded,
        passed=variant.passed,
        failed=variant.graded - variant.passed,
        errors=variant.errors,
        causes={cause.value: variant.causes[cause] for cause in sorted(variant.causes)},
        ended_by=dict(sorted(variant.ended_by.items())),
        flags=dict(sorted(variant.flags.items())),
        retried=variant.retried,
        attempts=variant.attempts,
        tasks=len(graded),
        tasks_planned=len(tally.groups),
        ungraded_tasks=len(ungraded),
        first_ungraded=tuple(ungraded[:NAMED_TASKS]),
        measure=measure,
        observed=_mean(sum_of(cell) / cell.graded for cell in graded.values()),
        lower=_bound(variant, sum_of, error_value=0) if bounded else None,
        upper=_bound(variant, sum_of, error_value=1) if bounded else None,
        interval=_interval(tally, variant, measure) if with_interval else None,
        pass_rate=_mean(cell.passed / cell.graded for cell in graded.values()),
    )


def to_plain(figures: Figures) -> dict[str, Any]:
    """Give figures as plain JSON, with what follows from them, for `ext` of a summary."""
    derived = {"missing": figures.missing, "coverage": figures.coverage, "is_valid": figures.is_valid}
    return asdict(figures) | derived


def from_plain(plain: object) -> Figures:
    """Read figures back from `ext` of a summary."""
    return msgspec.convert(plain, Figures)


def _choose_measure(variant: VariantTally) -> str:
    return next(iter(variant.metrics)) if len(variant.metrics) == 1 else PASS


def _sum_of(measure: str) -> Callable[[Cell], float]:
    return (lambda cell: cell.passed) if measure == PASS else (lambda cell: cell.total)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def _bound(variant: VariantTally, sum_of: Callable[[Cell], float], *, error_value: int) -> float | None:
    cells = variant.cells.values()
    return _mean((sum_of(cell) + error_value * cell.errors) / (cell.graded + cell.errors) for cell in cells)


def _interval(tally: Tally, variant: VariantTally, measure: str) -> Interval | None:
    sum_of = _sum_of(measure)
    tasks = [
        TaskMean(mean=sum_of(cell) / cell.graded, graded=cell.graded, group=tally.groups.get(task_id))
        for task_id, cell in variant.cells.items()
        if cell.graded
    ]
    return mean_interval(tasks, is_binary=measure == PASS or variant.is_binary) if tasks else None
