"""Running sums over trials: everything that a summary needs, one row at a time.

Rules: memory grows with variants x tasks, never with trials; feeding a row costs a few dictionary look-ups,
because every commit does it. A failed trial is missing data: it is counted by cause and enters no sum.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from labrunner.records.cause import Cause
from labrunner.records.rows import TrialRow


@dataclass(slots=True)
class Cell:
    """Sums over the replications of one (variant, task) pair."""

    graded: int = 0
    passed: int = 0
    errors: int = 0
    total: float = 0.0
    """Sum of the primary metric over graded trials."""
    total_squares: float = 0.0

    @property
    def failed(self) -> int:
        """Graded trials that did not pass."""
        return self.graded - self.passed


@dataclass(slots=True)
class VariantTally:
    """One variant's cells, and what is counted over all of them."""

    cells: dict[str, Cell] = field(default_factory=dict)
    causes: Counter[Cause] = field(default_factory=Counter)
    ended_by: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    metrics: set[str] = field(default_factory=set)
    """Names of the primary metrics met. More than one means that their values can't be averaged."""
    retried: int = 0
    attempts: int = 0
    lowest: float = float("inf")
    highest: float = float("-inf")
    is_binary: bool = True
    """Whether every primary metric so far was 0 or 1."""

    @property
    def graded(self) -> int:
        """Trials with a verdict."""
        return sum(cell.graded for cell in self.cells.values())

    @property
    def passed(self) -> int:
        """Trials that passed."""
        return sum(cell.passed for cell in self.cells.values())

    @property
    def errors(self) -> int:
        """Trials that ended without a verdict."""
        return sum(cell.errors for cell in self.cells.values())

    def add(self, row: TrialRow) -> None:
        """Take in one final trial."""
        cell = self.cells.get(row.ids.task_id)
        if cell is None:
            cell = self.cells[row.ids.task_id] = Cell()
        attempts = len(row.attempts)
        self.attempts += attempts
        self.retried += attempts > 1
        if row.outcome == "failed":
            cell.errors += 1
            self.causes[row.cause or Cause.RUNNER] += 1
            return
        self._add_grade(cell, row)

    def _add_grade(self, cell: Cell, row: TrialRow) -> None:
        has_passed = row.verdict == "pass"
        value = row.primary_metric_value
        if value is None:
            value = 1.0 if has_passed else 0.0
        cell.graded += 1
        cell.passed += has_passed
        cell.total += value
        cell.total_squares += value * value
        self.metrics.add(row.primary_metric_name or "pass")
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)
        self.is_binary = self.is_binary and value in {0.0, 1.0}
        if row.ended_by is not None:
            self.ended_by[row.ended_by] += 1
        if row.flags:
            self.flags.update(row.flags)


class Tally:
    """What is known about a run's finished trials, variant by variant."""

    def __init__(self, groups: Mapping[str, str | None]) -> None:
        """Take the run's task ids in order, each with the group that its author gave it, if any."""
        self.groups = groups
        self.variants: dict[str, VariantTally] = {}

    def add(self, row: TrialRow) -> None:
        """Take in one final trial, in any order."""
        variant = self.variants.get(row.ids.variant_id)
        if variant is None:
            variant = self.variants[row.ids.variant_id] = VariantTally()
        variant.add(row)
