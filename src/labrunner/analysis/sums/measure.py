"""What is averaged over a task's trials: the primary metric, or verdicts.

Rules: errors are never zeros and never vanish. A mean leaves them out; what it would be with each of them
scored at the lowest, or highest, end of the scale is asked for by name. Direction and bounds of a scale are
declared by its author, never read off the scores that happened to come. A direction that declarations do not
agree on is not guessed: verdicts are averaged instead.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from labrunner.analysis.sums.tally import Cell, Declared, VariantTally, directions, unite
from labrunner.experiment.resolved import DeclaredMetric

PASS: Final = "pass"
"""Name of the measure that averages verdicts, used where primary metrics differ from row to row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a cell's trials are scored."""

    name: str
    is_rate: bool
    """Whether every trial scored 0 or 1, on a scale that ends there."""
    better: Literal["higher", "lower"] = "higher"
    low: float | None = None
    """The scale's lower end; None, like `high`, where nothing bounds it."""
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both ends of the scale, so that a missing score can be bounded."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.better == "higher" else -1

    def total(self, cell: Cell) -> float:
        """Sum over graded trials."""
        return cell.passed if self.name == PASS else cell.total

    def values(self, cell: Cell) -> list[float]:
        """Scores of the graded trials; those of a rate are sorted, ones first."""
        if self.name != PASS and cell.values is not None:
            return cell.values
        ones = round(self.total(cell))
        return [1.0] * ones + [0.0] * (cell.graded - ones)

    def spread(self, cell: Cell) -> float:
        """Sum of squared distances from the cell's mean."""
        if self.name != PASS:
            return cell.spread
        return cell.passed * cell.failed / cell.graded if cell.graded else 0.0

    def spread_with(self, cell: Cell, count: int, value: float) -> float:
        """The same with so many more trials of one score."""
        if not count or not cell.graded:
            return self.spread(cell)
        distance = value - self.total(cell) / cell.graded
        return self.spread(cell) + distance * distance * cell.graded * count / (cell.graded + count)

    def mean(self, cell: Cell) -> float | None:
        """Mean over graded trials; None when there are none."""
        return self.total(cell) / cell.graded if cell.graded else None

    def mean_with(
        self, cell: Cell, *, errors: float | None = None, retried: float | None = None, missing: int = 0
    ) -> float | None:
        """Mean with every errored trial scored as given, and with every retried one scored as given.

        None leaves errored trials out, and retried ones as they ended. `missing` trials, which are not
        finished, are scored like errored ones.
        """
        total, count, left = self.total(cell), cell.graded, cell.errors + missing
        if retried is not None:
            total += retried * (cell.retried_graded + cell.retried_errors) - self._retried_total(cell)
            count, left = count + cell.retried_errors, left - cell.retried_errors
        if errors is not None:
            total, count = total + errors * left, count + left
        return total / count if count else None

    def mean_of_first_attempts(self, cell: Cell) -> float | None:
        """Mean over graded trials that needed no retry."""
        count = cell.graded - cell.retried_graded
        return (self.total(cell) - self._retried_total(cell)) / count if count else None

    def _retried_total(self, cell: Cell) -> float:
        return cell.retried_passed if self.name == PASS else cell.retried_total


def choose_measure(*variants: VariantTally) -> Measure:
    """The primary metric where all trials name the same one and its direction is known, else verdicts."""
    name = shared_metric(*variants)
    declared = declared_of(name, *variants)
    if name == PASS or len(directions(declared)) > 1:
        return Measure(name=PASS, is_rate=True, low=0.0, high=1.0)
    if all(variant.is_verdict for variant in variants) and all(map(_allows_verdicts, declared)):
        return Measure(name=name, is_rate=True, low=0.0, high=1.0)
    metric = unite(declared)
    if metric is None:
        return Measure(name=name, is_rate=False)
    is_binary = all(variant.is_binary for variant in variants)
    return Measure(
        name=name,
        is_rate=is_binary and _allows_verdicts(metric),
        better=metric.better,
        low=metric.min,
        high=metric.max,
    )


def shared_metric(*variants: VariantTally) -> str:
    """The primary metric that all trials name; `pass` where they name several, or none."""
    names = set().union(*(variant.metrics for variant in variants))
    return names.pop() if len(names) == 1 else PASS


def declared_of(name: str, *variants: VariantTally) -> Declared:
    """What is declared of a metric by the tasks of variants that have scores."""
    found = frozenset[DeclaredMetric | None]().union(*(each.declared for each in variants if each.metrics))
    return frozenset(each for each in found if each is None or each.name == name)


def _allows_verdicts(metric: DeclaredMetric | None) -> bool:
    """Whether scores of 0 and 1 are verdicts by another name: no other scale is declared for them."""
    return metric is None or (metric.min, metric.max, metric.better) == (0, 1, "higher")


def mean_with_marked(variant: VariantTally, measure: Measure) -> float | None:
    """The mean with trials that were marked as they ended; None without any, or where scores don't fit."""
    if not variant.marks or not is_fitting(measure, variant):
        return None
    return average(whole_means(variant, measure).values())


def is_fitting(measure: Measure, *variants: VariantTally) -> bool:
    """Whether trials of these variants that were marked are scored like the others."""
    marked = [each.marked for each in variants if each.marked is not None]
    return choose_measure(*variants, *marked) == measure


def whole_means(variant: VariantTally, measure: Measure) -> dict[str, float]:
    """Task means with trials that were marked as they ended."""
    marked = variant.marked.cells if variant.marked is not None else {}
    found = {}
    for task_id in {**variant.cells, **marked}:
        cells = [cells[task_id] for cells in (variant.cells, marked) if task_id in cells]
        graded = sum(cell.graded for cell in cells)
        if graded:
            found[task_id] = math.fsum(map(measure.total, cells)) / graded
    return found


def average(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are known; None when none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
