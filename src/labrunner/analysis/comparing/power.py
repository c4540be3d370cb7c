"""Before a run: which difference will so many tasks show, and how many would show a given one?

A pilot tells the variance of tasks' differences in three parts: between groups, between tasks of a group, and
within tasks, which more replications make smaller. The test is the one of
`labrunner.analysis.comparing.questions`, so its power is that of a noncentral t with the same degrees of
freedom. The pilot's variance is itself an estimate: its own 80% interval is told beside what follows from it.
Of a rate that interval is never a point: tasks of which none differed leave open how many of others would.
Where an experiment compares several variants, each comparison has its share of the 5% (Holm's first step).
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.comparing.answer import least_p
from labrunner.analysis.comparing.pairing import Arm, differences, pair_up
from labrunner.analysis.comparing.questions import FEWEST_UNITS, step_share
from labrunner.analysis.describing.variance import ALPHA, required_shift, sample_variance, split_variance
from labrunner.analysis.inference.clusters import freedom_of
from labrunner.analysis.inference.distributions import chi_square_quantile
from labrunner.analysis.sums.measure import Measure, average, choose_measure

TASKS: Final = (20, 50, 100, 200, 500)
REPLICATIONS: Final = (1, 3, 5, 10)
CORRELATION: Final = 0.8
"""Assumed between the true means of two arms where the pilot has only one."""
MOST_TASKS: Final = 1_000_000
DOUBT: Final = 0.8
"""Level of the interval of the pilot's variance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How tasks fall into groups: sizes of the units, a task without a group being one of its own."""

    sizes: tuple[int, ...]

    @property
    def tasks(self) -> int:
        """All of them."""
        return sum(self.sizes)

    @property
    def evenness(self) -> float:
        """Sum of squared shares of the units."""
        return math.fsum((size / self.tasks) ** 2 for size in self.sizes)

    def units(self, tasks: int) -> float:
        """How many units so many tasks make, falling into groups like these."""
        return len(self.sizes) * tasks / self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What the variance may be if the pilot was lucky."""

    factor: float
    """Times what the pilot saw."""
    least: float = 0.0
    """But no less than this, of the differences of units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """Variances of a pair of arms."""

    baseline: str
    other: str | None
    """None: the pilot has one arm; a second one like it is assumed."""
    measure: str
    tasks: int
    units: int
    within: float | None
    """Sum of both arms' variances within tasks. None: no task was repeated, so it can't be told apart."""
    between: float
    """Variance between tasks of the true difference; of the observed one where `within` is None."""
    between_groups: float
    """Variance of the true difference between groups of tasks; 0 without groups."""
    correlation: float | None
    """Assumed, where the pilot has one arm."""
    is_rate: bool
    reach: float | None
    """The largest difference that the scale leaves room for."""
    cost_usd: float | None = None
    """Mean cost of a trial."""
    time_s: float | None = None
    """Mean time of a trial, all attempts."""
    family: int = 1
    """How many comparisons the plan will make: p-values are adjusted for all of them."""

    @property
    def has_spread(self) -> bool:
        """Whether anything differed, so that what luck does is known; of rates it always is."""
        return self.is_rate or self.between + self.between_groups + (self.within or 0.0) > 0

    @property
    def is_best_case(self) -> bool:
        """Whether the pilot of a rate saw no spread: what follows is then the least that luck leaves."""
        return self.is_rate and not self.between + self.between_groups + (self.within or 0.0)

    def can_show(self, units: float) -> bool:
        """Whether so many units can show anything: of rates a clean sweep must do for each comparison."""
        is_rare = not self.is_rate or self.family * least_p(units) < ALPHA
        return units >= FEWEST_UNITS and is_rare

    def detectable(
        self, layout: Layout, tasks: int, replications: int, *, guess: "Guess | None" = None
    ) -> float | None:
        """What so many tasks and replications show four times out of five.

        None where the pilot can't tell (it saw no spread), where so few tasks show nothing, and where no
        difference on the scale is so large. `guess` is what the pilot's variance may be instead.
        """
        if not self.can_show(layout.units(tasks)) or (self.within is None and replications != 1):
            return None
        single = self.between + (self.within or 0.0) / replications
        share = step_share(layout.units(tasks)) if self.is_rate else 0.0
        step = share / (replications * replications * (tasks - 1))
        spread = self.between_groups * layout.evenness * layout.tasks + single
        if guess is not None:
            spread = max(guess.factor * spread, guess.least * layout.evenness * layout.tasks)
        shift = required_shift(self._freedom(layout, tasks, single), alpha=ALPHA / self.family)
        found = shift * math.sqrt((spread + step) / tasks)
        if self.is_rate:
            found = max(found, _least_shown(shift, tasks * replications))
        is_known = found > 0 and (self.reach is None or found <= self.reach)
        return found if is_known else None

    def needed(
        self, layout: Layout, replications: int, difference: float, *, guess: "Guess | None" = None
    ) -> int | None:
        """How few tasks show a difference four times out of five; None where no number does."""
        fewest = math.ceil(FEWEST_UNITS * layout.tasks / len(layout.sizes))

        def is_enough(tasks: int) -> bool:
            found = self.detectable(layout, tasks, replications, guess=guess)
            return found is not None and found <= difference

        return _search(is_enough, fewest, MOST_TASKS)

    @property
    def doubt(self) -> tuple["Guess", "Guess"]:
        """Between which variances the true one lies, four times out of five.

        By chi-square; and of rates the upper one is no smaller than what so many units, none of which
        differs, leave open: that as many more would as make such a pilot 1 in 10.
        """
        freedom = max(1, self.units - 1)
        low, high = (1 - DOUBT) / 2, (1 + DOUBT) / 2
        least = 1 - math.pow(low, 1 / self.units) if self.is_rate else 0.0
        return (
            Guess(factor=freedom / chi_square_quantile(high, freedom)),
            Guess(factor=freedom / chi_square_quantile(low, freedom), least=least),
        )

    def _freedom(self, layout: Layout, tasks: int, single: float) -> float:
        whole = self.between_groups + single
        likeness = self.between_groups / whole if whole else 0.0
        freedom = freedom_of(layout.sizes, likeness)
        return round(max(1.0, (freedom + 1) * tasks / layout.tasks - 1), 3)


def _least_shown(shift: float, trials: int) -> float:
    """The difference d that rates show at best, whatever the pilot: it brings d(1 - d) of variance a trial.

    So much luck there is if one variant always passes; a pilot in which nothing failed has seen none of it.
    """
    odds = shift * shift / trials
    return odds / (1 + odds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What it takes to show a difference with so many replications."""

    replications: int
    tasks: int | None
    """None: no number of tasks that can be run."""
    tasks_low: int | None
    tasks_high: int | None
    """By the pilot's own uncertainty, 80%."""
    trials: int | None
    """Of all variants."""
    cost_usd: float | None
    time_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerGrid:
    """What each number of tasks and replications detects."""

    pilot: Pilot
    replications: tuple[int, ...]
    rows: tuple[tuple[int, tuple[float | None, ...]], ...]
    """Tasks, and the detectable difference for each number of replications."""
    planned_tasks: int
    planned_units: int
    planned_replications: int
    planned: float | None
    """What the plan itself detects."""
    planned_low: float | None
    planned_high: float | None
    """The same by the pilot's own uncertainty, 80%."""
    detect: float | None = None
    """The difference that somebody wants to detect."""
    needs: tuple[Need, ...] = ()


def estimate_pilots(arms: Sequence[Arm]) -> tuple[Pilot, ...]:
    """Estimate what a pilot run can tell: each arm against the first; or the only one against its like."""
    if len(arms) == 1:
        found = [_estimate_alone(arms[0])]
    else:
        found = [_estimate_pair(arms[0], other) for other in arms[1:]]
    return tuple(pilot for pilot in found if pilot is not None)


def make_grid(pilot: Pilot, layout: Layout, *, replications: int, detect: float | None = None) -> PowerGrid:
    """Compute the grid around a plan, whose tasks fall into groups as `layout` says."""
    columns = tuple(sorted({*REPLICATIONS, replications}))
    rows = tuple(
        (count, tuple(pilot.detectable(layout, count, each) for each in columns))
        for count in sorted({*TASKS, layout.tasks})
    )
    low, high = (pilot.detectable(layout, layout.tasks, replications, guess=guess) for guess in pilot.doubt)
    known = columns if pilot.within is not None else (1,)
    needs = () if detect is None else tuple(_need(pilot, layout, each, detect) for each in known)
    return PowerGrid(
        pilot=pilot,
        replications=columns,
        rows=rows,
        planned_tasks=layout.tasks,
        planned_units=len(layout.sizes),
        planned_replications=replications,
        planned=pilot.detectable(layout, layout.tasks, replications),
        planned_low=low,
        planned_high=high,
        detect=detect,
        needs=needs,
    )


def layout_of(groups: Sequence[str | None]) -> Layout:
    """The layout of tasks, by their groups."""
    named = Counter(group for group in groups if group is not None)
    alone = sum(group is None for group in groups)
    return Layout(sizes=(*[1] * alone, *named.values()))


def _need(pilot: Pilot, layout: Layout, replications: int, detect: float) -> Need:
    low, high = (pilot.needed(layout, replications, detect, guess=guess) for guess in pilot.doubt)
    tasks = pilot.needed(layout, replications, detect)
    trials = None if tasks is None else (pilot.family + 1) * tasks * replications
    return Need(
        replications=replications,
        tasks=tasks,
        tasks_low=low,
        tasks_high=high,
        trials=trials,
        cost_usd=None if trials is None or pilot.cost_usd is None else trials * pilot.cost_usd,
        time_s=None if trials is None or pilot.time_s is None else trials * pilot.time_s,
    )


def _search(is_enough: Callable[[int], bool], fewest: int, most: int) -> int | None:
    """The smallest number that is enough, by doubling and halving."""
    low, high = fewest - 1, fewest
    while not is_enough(high):
        low, high = high, 2 * high
        if low >= most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _estimate_pair(baseline: Arm, other: Arm) -> Pilot | None:
    measure = choose_measure(baseline.tally, other.tally)
    scored = differences(pair_up(baseline, other), measure)
    if len(scored) < 2:
        return None
    sides = [
        split_variance([task.baseline for task, _ in scored], measure),
        split_variance([task.other for task, _ in scored], measure),
    ]
    known = [side for side in sides if side is not None]
    is_split = len(known) == len(sides)
    noise = sum(side.within * side.mean_inverse_graded for side in known) if is_split else 0.0
    groups = [task.group for task, _ in scored]
    of_groups, of_tasks = _split_groups([each for _, each in scored], groups)
    return Pilot(
        baseline=baseline.name,
        other=other.name,
        measure=measure.name,
        tasks=len(scored),
        units=len(layout_of(groups).sizes),
        within=sum(side.within for side in known) if is_split else None,
        between=max(0.0, of_tasks - noise),
        between_groups=of_groups,
        correlation=None,
        is_rate=measure.is_rate,
        reach=_room(measure, average(measure.mean(task.baseline) for task, _ in scored)),
    )


def _estimate_alone(arm: Arm) -> Pilot | None:
    measure = choose_measure(arm.tally)
    split = split_variance(list(arm.tally.cells.values()), measure)
    if split is None:
        return None
    graded = {
        task_id: mean for task_id, cell in arm.tally.cells.items() if (mean := measure.mean(cell)) is not None
    }
    groups = [arm.groups.get(task_id) for task_id in graded]
    of_groups, of_tasks = _split_groups(list(graded.values()), groups)
    noise = split.within * split.mean_inverse_graded
    return Pilot(
        baseline=arm.name,
        other=None,
        measure=measure.name,
        tasks=split.tasks,
        units=len(layout_of(groups).sizes),
        within=2 * split.within,
        between=2 * max(0.0, of_tasks - noise) * (1 - CORRELATION),
        between_groups=2 * of_groups * (1 - CORRELATION),
        correlation=CORRELATION,
        is_rate=measure.is_rate,
        reach=_room(measure, average(graded.values())),
    )


def _split_groups(values: Sequence[float], groups: Sequence[str | None]) -> tuple[float, float]:
    """Variance between groups, and between tasks within them, by the analysis of variance."""
    if all(group is None for group in groups):
        return 0.0, sample_variance(values)
    units: dict[object, list[float]] = {}
    for number, (value, group) in enumerate(zip(values, groups, strict=True)):
        units.setdefault(number if group is None else group, []).append(value)
    tasks, count = len(values), len(units)
    if count in {1, tasks}:
        return 0.0, sample_variance(values)
    mean = math.fsum(values) / tasks
    means = {key: math.fsum(unit) / len(unit) for key, unit in units.items()}
    inside = math.fsum((value - means[key]) ** 2 for key, unit in units.items() for value in unit)
    outside = math.fsum(len(unit) * (means[key] - mean) ** 2 for key, unit in units.items())
    within = inside / (tasks - count)
    typical = (tasks - math.fsum(len(unit) ** 2 for unit in units.values()) / tasks) / (count - 1)
    return max(0.0, (outside / (count - 1) - within) / typical), within


def _room(measure: Measure, mean: float | None) -> float | None:
    if measure.bounds is None or mean is None:
        return None
    return max(measure.bounds[1] - mean, mean - measure.bounds[0])
