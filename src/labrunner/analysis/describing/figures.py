"""One variant's figures, each with the inputs that it was computed from.

Rules: a mean is the average of task means, so that every task weighs the same; errors are never zeros and
never vanish: `lower` counts them as 0, `observed` leaves them out, `upper` counts them as 1 (or as the ends
of the declared scale). What is owed is missing too, and what somebody marked as not to be used; both count
alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import msgspec

from labrunner.analysis.describing.price import Price, price_success
from labrunner.analysis.describing.repeated import Repeated, repeated_success
from labrunner.analysis.describing.variance import VarianceSplit, split_variance
from labrunner.analysis.inference.interval import Interval, TaskMean, mean_interval
from labrunner.analysis.inference.rerun import rerun_interval
from labrunner.analysis.sums.expense import Expense, Quantity, VariantExpense
from labrunner.analysis.sums.measure import PASS, Measure, average, choose_measure, mean_with_marked
from labrunner.analysis.sums.tally import Cell, Marked, Tally, VariantTally
from labrunner.experiment.resolved import Population

__all__ = ["PASS", "Figures", "compute_all", "compute_figures", "from_plain", "to_plain"]

NAMED_TASKS: Final = 20
_VERDICTS: Final = Measure(name=PASS, is_rate=True, low=0.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Ends of an interval that hold however what has no grade had ended."""

    low: float
    high: float


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
    """Trials marked as not to be used: in no other figure, and not missing either; only `lower`, `upper` and
    `sure` allow for them, as for whatever has no grade that counts."""
    marks: tuple[Marked, ...]
    """Why they were marked."""
    with_marked: float | None
    """The mean with these trials as they ended; None where there are none, or where scores don't fit."""
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
    population: Population
    """What its intervals speak of: tasks like these, or these tasks only."""
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
    sure: Ends | None
    """The interval with everything that has no grade scored at the lower end, and at the upper one, ends as
    far apart as any of them has; None where nothing bounds a score, or where there is no interval."""
    pass_sure: Ends | None
    """The same of `pass_interval`."""
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
    tally: Tally,
    planned: Mapping[str, int],
    *,
    expense: Expense | None = None,
    with_intervals: bool = True,
    population: Population = "tasks_like_these",
) -> tuple[Figures, ...]:
    """Compute the figures of every variant in `planned`, which names their numbers of slots, in order."""
    spent = expense.variants if expense else {}
    return tuple(
        compute_figures(
            tally,
            variant_id,
            slots,
            expense=spent.get(variant_id),
            with_interval=with_intervals,
            population=population,
        )
        for variant_id, slots in planned.items()
    )


def compute_figures(
    tally: Tally,
    variant_id: str,
    planned: int,
    *,
    with_interval: bool,
    expense: VariantExpense | None = None,
    population: Population = "tasks_like_these",
) -> Figures:
    """Compute one variant's figures; without the interval, nothing heavy is loaded."""
    variant = tally.variants.get(variant_id, VariantTally())
    measure = choose_measure(variant)
    graded = {task_id: cell for task_id, cell in variant.cells.items() if cell.graded}
    ungraded = [task_id for task_id in tally.groups if task_id not in graded]
    counts = [cell.graded for cell in graded.values()]
    each = planned // len(tally.groups) if tally.groups else 0
    means = _Means(tally=tally, variant=variant, each=each, population=population)
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
        marks=tuple(variant.marks.values()),
        with_marked=mean_with_marked(variant, measure),
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
        population=population,
        scale=measure.bounds,
        observed=average(map(measure.mean, graded.values())),
        lower=means.bound(measure, measure.low),
        upper=means.bound(measure, measure.high),
        interval=means.interval(measure) if with_interval else None,
        pass_rate=average(cell.passed / cell.graded for cell in graded.values()),
        pass_interval=means.interval(_VERDICTS) if with_interval else None,
        sure=means.sure(measure) if with_interval else None,
        pass_sure=means.sure(_VERDICTS) if with_interval else None,
        variance=split_variance(list(graded.values()), measure) if with_interval else None,
        repeated=repeated_success(graded, tally.groups, population) if with_interval else (),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Means:
    """One variant's task means, as they came out or with what has no grade scored at an end of the scale."""

    tally: Tally
    variant: VariantTally
    each: int
    """Trials planned of each task."""
    population: Population

    def interval(self, measure: Measure) -> Interval | None:
        """Of the mean as it came out."""
        return self._ask(self._observed(measure), measure)

    def bound(self, measure: Measure, end: float | None) -> float | None:
        """The mean with everything that has no grade that counts scored at one end.

        That is errors, what is not finished, and what somebody marked: nobody's choice can raise a lower end.
        """
        if end is None or measure.bounds is None:
            return None
        return average(task.mean for task in self._fill(measure, end))

    def sure(self, measure: Measure) -> Ends | None:
        """Ends of all intervals that what has no grade leaves open."""
        found = self.interval(measure)
        planned = self.each * len(self.tally.groups)
        if found is None:
            return None
        if planned <= self.variant.graded:
            return Ends(low=found.low, high=found.high)
        if measure.bounds is None:
            return None
        filled = [self._ask(list(self._fill(measure, end)), measure) for end in measure.bounds]
        known = [found, *(one for one in filled if one is not None)]
        return Ends(low=min(one.low for one in known), high=max(one.high for one in known))

    def _ask(self, tasks: Sequence[TaskMean], measure: Measure) -> Interval | None:
        ask = rerun_interval if self.population == "these_tasks" else mean_interval
        return ask(tasks, is_rate=measure.is_rate, bounds=measure.bounds)

    def _observed(self, measure: Measure) -> list[TaskMean]:
        return [
            TaskMean(
                mean=measure.total(cell) / cell.graded,
                graded=cell.graded,
                group=self.tally.groups.get(task_id),
                spread=measure.spread(cell),
            )
            for task_id, cell in self.variant.cells.items()
            if cell.graded
        ]

    def _fill(self, measure: Measure, end: float) -> Iterator[TaskMean]:
        empty = Cell()
        for task_id, group in self.tally.groups.items():
            cell = self.variant.cells.get(task_id, empty)
            missing = max(0, self.each - cell.graded - cell.errors)
            mean = measure.mean_with(cell, errors=end, missing=missing)
            if mean is not None:
                left = cell.errors + missing
                yield TaskMean(
                    mean=mean,
                    graded=cell.graded + left,
                    group=group,
                    spread=measure.spread_with(cell, left, end),
                )
