"""One variant's figures, each with the inputs that it was computed from.

Rules: a mean is the average of task means, so that every task weighs the same; errors are never zeros and
never vanish: `lower` counts them as 0, `observed` leaves them out, `upper` counts them as 1 (or as the ends
of the declared scale). What is owed is missing too, and counts alike.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import msgspec

from labrunner.analysis.describing.price import Price, price_success
from labrunner.analysis.describing.repeated import Repeated, repeated_success
from labrunner.analysis.describing.variance import VarianceSplit, split_variance
from labrunner.analysis.inference.interval import Interval, TaskMean, mean_interval
from labrunner.analysis.sums.expense import Expense, Quantity, VariantExpense
from labrunner.analysis.sums.measure import PASS, Measure, average, choose_measure
from labrunner.analysis.sums.tally import Cell, Tally, VariantTally

__all__ = ["PASS", "Figures", "compute_all", "compute_figures", "from_plain", "to_plain"]

NAMED_TASKS: Final = 20
_VERDICTS: Final = Measure(name=PASS, is_rate=True, low=0.0, high=1.0)


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
    invalidated: int
    """Trials marked as not to be used: in no other figure, and not missing either."""
    retried: int
    attempts: int
    adopted: int
    """Attempts that went on in their sandbox after the runner had died."""
    cut_off: int
    """Attempts that a crash ended; their slots were run again."""
    tasks: int
    """Tasks with a graded trial: the n behind the means."""
    tasks_planned: int
    ungraded_tasks: int
    """Tasks without a graded trial."""
    first_ungraded: tuple[str, ...]
    """The first of them, in the order of the tasks."""
    fewest_graded: int
    """Graded trials of the task that has the fewest, among those that have any."""
    most_graded: int
    measure: str
    """What `observed` averages: the primary metric, or `pass`."""
    better: Literal["higher", "lower"]
    scale: tuple[float, float] | None
    """Declared ends of the measure's scale."""
    observed: float | None
    lower: float | None
    """Errored and missing trials scored at the scale's lower end; None, like `upper`, where nothing bounds
    it."""
    upper: float | None
    interval: Interval | None
    pass_rate: float | None
    pass_interval: Interval | None
    variance: VarianceSplit | None
    """None, like `repeated` and `interval`, in a summary without intervals."""
    repeated: tuple[Repeated, ...]
    expense: dict[str, Quantity]
    price: Price | None
    """Money per solved task; None where nobody tells what trials cost, and in a summary without intervals."""
    edited: int = 0
    """Trials taken over from code that was edited since, because somebody vouched for it."""

    @property
    def finished(self) -> int:
        """Trials that are final."""
        return self.graded + self.errors

    @property
    def missing(self) -> int:
        """Planned, not finished, and not invalidated."""
        return max(0, self.planned - self.finished - self.invalidated)

    @property
    def coverage(self) -> float | None:
        """Share of the planned trials that have a grade."""
        return self.graded / self.planned if self.planned else None

    @property
    def is_valid(self) -> bool:
        """Whether every task has at least one grade: otherwise the mean speaks of easier tasks only."""
        return self.ungraded_tasks == 0


def compute_all(
    tally: Tally, planned: Mapping[str, int], *, expense: Expense | None = None, with_intervals: bool = True
) -> tuple[Figures, ...]:
    """Compute the figures of every variant in `planned`, which names their numbers of slots, in order."""
    spent = expense.variants if expense else {}
    return tuple(
        compute_figures(tally, variant_id, slots, expense=spent.get(variant_id), with_interval=with_intervals)
        for variant_id, slots in planned.items()
    )


def compute_figures(
    tally: Tally, variant_id: str, planned: int, *, with_interval: bool, expense: VariantExpense | None = None
) -> Figures:
    """Compute one variant's figures; without the interval, nothing heavy is loaded."""
    variant = tally.variants.get(variant_id, VariantTally())
    measure = choose_measure(variant)
    graded = {task_id: cell for task_id, cell in variant.cells.items() if cell.graded}
    ungraded = [task_id for task_id in tally.groups if task_id not in graded]
    counts = [cell.graded for cell in graded.values()]
    each = planned // len(tally.groups) if tally.groups else 0
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
        invalidated=variant.invalidated,
        retried=variant.retried,
        attempts=variant.attempts,
        adopted=expense.adopted if expense else 0,
        cut_off=expense.cut_off if expense else 0,
        tasks=len(graded),
        tasks_planned=len(tally.groups),
        ungraded_tasks=len(ungraded),
        first_ungraded=tuple(ungraded[:NAMED_TASKS]),
        fewest_graded=min(counts, default=0),
        most_graded=max(counts, default=0),
        measure=measure.name,
        better=measure.better,
        scale=measure.bounds,
        observed=average(map(measure.mean, graded.values())),
        lower=_bound(tally, variant, measure, each=each, end=measure.low),
        upper=_bound(tally, variant, measure, each=each, end=measure.high),
        interval=_interval(tally, variant, measure) if with_interval else None,
        pass_rate=average(cell.passed / cell.graded for cell in graded.values()),
        pass_interval=_interval(tally, variant, _VERDICTS) if with_interval else None,
        variance=split_variance(list(graded.values()), measure) if with_interval else None,
        repeated=repeated_success(graded, tally.groups) if with_interval else (),
        expense=expense.quantities() if expense else {},
        price=price_success(expense.spent_by_task("cost_usd"), tally.groups)
        if expense and with_interval
        else None,
        edited=expense.edited if expense else 0,
    )


def to_plain(figures: Figures) -> dict[str, Any]:
    """Give figures as plain JSON, with what follows from them, for `ext` of a summary."""
    derived = {
        "finished": figures.finished,
        "missing": figures.missing,
        "coverage": figures.coverage,
        "is_valid": figures.is_valid,
        "icc": figures.variance.icc if figures.variance else None,
    }
    return asdict(figures) | derived


def from_plain(plain: object) -> Figures:
    """Read figures back from `ext` of a summary."""
    return msgspec.convert(plain, Figures)


def _bound(
    tally: Tally, variant: VariantTally, measure: Measure, *, each: int, end: float | None
) -> float | None:
    """The mean with everything that has no grade scored at one end: errors, and what is not finished."""
    if end is None or measure.bounds is None:
        return None
    empty = Cell()
    means = []
    for task_id in tally.groups:
        cell = variant.cells.get(task_id, empty)
        missing = max(0, each - cell.graded - cell.errors - variant.left_out[task_id])
        means.append(measure.mean_with(cell, errors=end, missing=missing))
    return average(means)


def _interval(tally: Tally, variant: VariantTally, measure: Measure) -> Interval | None:
    tasks = [
        TaskMean(mean=measure.total(cell) / cell.graded, graded=cell.graded, group=tally.groups.get(task_id))
        for task_id, cell in variant.cells.items()
        if cell.graded
    ]
    return mean_interval(tasks, is_rate=measure.is_rate, bounds=measure.bounds)
