"""What is averaged over a task's trials: the primary metric, or verdicts.

Rule: errors are never zeros and never vanish. A mean leaves them out; what it would be with each of them
scored 0, or 1, is asked for by name.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.tally import Cell, VariantTally

PASS: Final = "pass"
"""Name of the measure that averages verdicts, used where primary metrics differ from row to row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a cell's trials are scored."""

    name: str
    is_binary: bool
    """Whether every trial scored 0 or 1."""
    is_bounded: bool
    """Whether scores lie between 0 and 1, so that a missing one can be bounded."""

    def total(self, cell: Cell) -> float:
        """Sum over graded trials."""
        return cell.passed if self.name == PASS else cell.total

    def spread(self, cell: Cell) -> float:
        """Sum of squared distances from the cell's mean."""
        if self.name != PASS:
            return cell.spread
        return cell.passed * cell.failed / cell.graded if cell.graded else 0.0

    def mean(self, cell: Cell) -> float | None:
        """Mean over graded trials; None when there are none."""
        return self.total(cell) / cell.graded if cell.graded else None

    def mean_with(
        self, cell: Cell, *, errors: float | None = None, retried: float | None = None
    ) -> float | None:
        """Mean with every errored trial scored as given, and with every retried one scored as given.

        None leaves errored trials out, and retried ones as they ended.
        """
        total, count, left = self.total(cell), cell.graded, cell.errors
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
    """The primary metric where all trials name the same one, else verdicts."""
    names = set().union(*(variant.metrics for variant in variants))
    name = names.pop() if len(names) == 1 else PASS
    if name == PASS:
        return Measure(name=PASS, is_binary=True, is_bounded=True)
    return Measure(
        name=name,
        is_binary=all(variant.is_binary for variant in variants),
        is_bounded=all(variant.lowest >= 0.0 and variant.highest <= 1.0 for variant in variants),
    )


def average(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are known; None when none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
