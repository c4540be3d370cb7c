"""Running sums over trials: everything that a summary needs, one row at a time.

Rules: memory grows with variants x tasks, never with trials; feeding a row costs a few dictionary look-ups,
because every commit does it. A failed trial is missing data: it is counted by cause and enters no sum.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal

from labrunner.experiment.resolved import LARGEST_SCORE, DeclaredMetric, Experiment
from labrunner.records.cause import Cause
from labrunner.records.glance import TrialGlance
from labrunner.records.rows import TrialRow

Trial = TrialRow | TrialGlance
NONE_MARKED: Final[Mapping[str, str]] = MappingProxyType({})
Declared = frozenset[DeclaredMetric | None]
"""Everything that tasks declare of their scores; None stands for tasks that declare nothing."""
UNDECLARED: Final[Declared] = frozenset({None})


@dataclass(slots=True)
class Cell:
    """Sums over the replications of one (variant, task) pair."""

    graded: int = 0
    passed: int = 0
    errors: int = 0
    total: float = 0.0
    """Sum of the primary metric over graded trials."""
    spread: float = 0.0
    """Sum of squared distances of the primary metric from its mean, over graded trials."""
    retried_graded: int = 0
    """Of the graded ones, those that needed more than one attempt."""
    retried_passed: int = 0
    retried_errors: int = 0
    retried_total: float = 0.0
    """Sum of the primary metric over graded trials that were retried."""
    first_passed: int | None = None
    """Replication of the first trial that passed: an example to look at."""
    first_failed: int | None = None
    values: list[float] | None = None
    """Every graded trial's primary metric, in the order of commits; None while all of them are 0 or 1."""

    @property
    def failed(self) -> int:
        """Graded trials that did not pass."""
        return self.graded - self.passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """Trials that somebody marked as not to be used, all for one reason."""

    reason: str
    trials: int
    first: str
    """The id of one of them."""


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
    most_attempts: int = 0
    marked: "VariantTally | None" = None
    """Trials marked as not to be used, as they ended. They are in no other sum here."""
    marks: dict[str, "Marked"] = field(default_factory=dict)
    """Why they were marked, by what was said."""
    lowest: float = float("inf")
    highest: float = float("-inf")
    is_binary: bool = True
    """Whether every primary metric so far was 0 or 1."""
    is_verdict: bool = True
    """Whether every primary metric so far was 1 for a pass and 0 for a fail: the verdict by another name."""
    declared: Declared = UNDECLARED
    """What the experiment's tasks say of their metrics."""

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

    @property
    def invalidated(self) -> int:
        """Trials marked as not to be used."""
        return sum(mark.trials for mark in self.marks.values())

    def mark(self, row: Trial, reason: str) -> None:
        """Take in a trial that is not to be used: only counted, with why, and kept apart as it ended."""
        if self.marked is None:
            self.marked = VariantTally(declared=self.declared)
        self.marked.add(row)
        known = self.marks.get(reason)
        if known is None:
            self.marks[reason] = Marked(reason=reason, trials=1, first=row.ids.trial_id)
        else:
            self.marks[reason] = replace(known, trials=known.trials + 1)

    def add(self, row: Trial, *, earlier: int = 0) -> None:
        """Take in one final trial, with how many attempts at it were made in runs before this one."""
        cell = self.cells.get(row.ids.task_id)
        if cell is None:
            cell = self.cells[row.ids.task_id] = Cell()
        attempts = len(row.attempts) + earlier
        self.attempts += attempts
        if attempts > self.most_attempts:
            self.most_attempts = attempts
        if attempts > 1:
            self.retried += 1
        if row.outcome == "failed" or not is_score(row.primary_metric_value):
            cell.errors += 1
            cell.retried_errors += attempts > 1
            self.causes[row.cause or (Cause.RUNNER if row.outcome == "failed" else Cause.GRADE_ERROR)] += 1
        else:
            self._add_grade(cell, row, is_retried=attempts > 1)

    def _add_grade(self, cell: Cell, row: Trial, *, is_retried: bool) -> None:
        has_passed = row.verdict == "pass"
        value = row.primary_metric_value
        if value is None:
            value = 1.0 if has_passed else 0.0
        graded, total = cell.graded, cell.total
        if graded:
            # Squared distances are summed as they come: sums of squares lose all when values are large.
            distance = value - total / graded
            cell.spread += distance * distance * graded / (graded + 1)
        if cell.values is not None:
            cell.values.append(value)
        elif value != 0.0 and value != 1.0:
            cell.values = [*[1.0] * round(total), *[0.0] * (graded - round(total)), value]
        cell.graded = graded + 1
        cell.total = total + value
        # The lowest replication of each verdict is remembered, in whatever order trials come.
        repl_idx = row.ids.repl_idx
        if has_passed:
            cell.passed += 1
            if cell.first_passed is None or repl_idx < cell.first_passed:
                cell.first_passed = repl_idx
        elif cell.first_failed is None or repl_idx < cell.first_failed:
            cell.first_failed = repl_idx
        if is_retried:
            cell.retried_graded += 1
            cell.retried_passed += has_passed
            cell.retried_total += value
        if self.is_verdict and value != has_passed:
            self.is_verdict = False
        self._note_value(row, value)

    def _note_value(self, row: Trial, value: float) -> None:
        self.metrics.add(row.primary_metric_name or "pass")
        if value < self.lowest:
            self.lowest = value
        if value > self.highest:
            self.highest = value
        if self.is_binary and value not in {0.0, 1.0}:
            self.is_binary = False
        if row.ended_by is not None:
            self.ended_by[row.ended_by] += 1
        if row.flags:
            self.flags.update(row.flags)


def is_score(value: float | None) -> bool:
    """Whether a primary metric, if there is one, is a number that can be reckoned with."""
    return value is None or -LARGEST_SCORE <= value <= LARGEST_SCORE


class Tally:
    """What is known about a run's finished trials, variant by variant."""

    def __init__(
        self,
        groups: Mapping[str, str | None],
        invalidated: Mapping[str, str] = NONE_MARKED,
        *,
        declared: Declared = UNDECLARED,
        tags: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Take the run's task ids in order, each with the group that its author gave it, if any.

        Trials whose ids are in `invalidated`, with why, are counted and otherwise left out. `declared` is
        what tasks declare of their scores, `tags` are those of the tasks.
        """
        self.groups = groups
        self.tags = tags or {}
        self.declared = declared
        self._invalidated = invalidated
        self.variants: dict[str, VariantTally] = {}

    @classmethod
    def of(cls, experiment: Experiment, invalidated: Mapping[str, str] = NONE_MARKED) -> "Tally":
        """An empty one for an experiment's trials."""
        return cls(
            {task.id: task.group for task in experiment.tasks},
            invalidated,
            declared=_declared(experiment),
            tags={task.id: task.tags for task in experiment.tasks if task.tags},
        )

    def add(self, row: Trial, *, earlier: int = 0) -> bool:
        """Take in one final trial, in any order; tell whether it counts.

        `earlier` is how many attempts at it were made in the runs that this one goes on from. A trial that a
        recovered report calls cancelled is only missing.
        """
        variant = self.variants.get(row.ids.variant_id)
        if variant is None:
            variant = self.variants[row.ids.variant_id] = VariantTally(declared=self.declared)
        if row.outcome == "cancelled":
            return False
        reason = self._invalidated.get(row.ids.trial_id)
        if reason is not None:
            variant.mark(row, reason)
            return False
        variant.add(row, earlier=earlier)
        return True


def declared_metric(experiment: Experiment) -> DeclaredMetric | None:
    """What an experiment's graders declare of their scores, as far as all of them agree."""
    return unite(_declared(experiment))


def unite(declared: Declared) -> DeclaredMetric | None:
    """One name and direction that all declare, with the bounds that they share; None where they differ."""
    known = [each for each in declared if each is not None]
    if len(known) < len(declared) or len({(each.name, each.better) for each in known}) != 1:
        return None
    lows, highs = {each.min for each in known}, {each.max for each in known}
    return replace(
        known[0],
        min=lows.pop() if len(lows) == 1 else None,
        max=highs.pop() if len(highs) == 1 else None,
    )


def directions(declared: Declared) -> set[Literal["higher", "lower"]]:
    """Which way is better, by each that declares it; where nothing is declared, more is."""
    return {"higher" if each is None else each.better for each in declared}


def _declared(experiment: Experiment) -> Declared:
    return frozenset(task.grader.metric for task in experiment.tasks) or UNDECLARED
