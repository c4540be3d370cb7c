"""Where a result comes from: tasks that flicker, tasks that tell variants apart, and figures tag by tag.

Rules: flaky are tasks whose trials of a variant get different verdicts (measured scores always differ a
little); they are ordered by their variance within, apart by how far their means lie apart between
variants: a look at the data, not a test. Tags are compared with the baseline like whole runs, and all of
them are one family (Holm).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.comparing.comparison import Comparison, compare_all
from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.inference.interval import Interval, TaskMean, mean_interval
from labrunner.analysis.inference.rerun import rerun_interval
from labrunner.analysis.sums.measure import Measure, average, choose_measure
from labrunner.analysis.sums.tally import Cell, VariantTally

NAMED: Final = 10
MOST_TAGS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyTask:
    """A task of which some trials of one variant pass, and some do not."""

    variant_id: str
    task_id: str
    graded: int
    passed: int
    mean: float
    variance: float
    """Of single scores, within the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedTask:
    """A task that some variants do better than others."""

    task_id: str
    lowest: str
    """The variant with the lowest mean."""
    low: float
    highest: str
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TagFigures:
    """One variant on the tasks that have a tag."""

    tag: str
    variant_id: str
    tasks: int
    graded: int
    observed: float
    interval: Interval | None
    difference: float | None
    """To the baseline on these tasks; None for the baseline itself."""
    p_adjusted: float | None
    """On tasks like these, adjusted by Holm over all tags and variants; None with too few tasks."""
    conclusion: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Where a result comes from."""

    flaky: tuple[FlakyTask, ...]
    flaky_tasks: int
    """Pairs of task and variant whose trials ended differently, also those that are not named."""
    divided: tuple[DividedTask, ...]
    tags: tuple[TagFigures, ...]
    tags_left_out: int
    """Tags beyond the first so many."""
    family: int
    """Comparisons by tag that p-values are adjusted for."""


def break_down(arms: Sequence[Arm], tags: Mapping[str, Sequence[str]]) -> Breakdown:
    """Look at tasks and tags; the first arm is the baseline."""
    measure = choose_measure(*(arm.tally for arm in arms))
    flaky = _find_flaky(arms, measure)
    names = list(dict.fromkeys(tag for each in tags.values() for tag in each))
    compared = _compare_tags(arms, tags, names[:MOST_TAGS])
    return Breakdown(
        flaky=tuple(flaky[:NAMED]),
        flaky_tasks=len(flaky),
        divided=tuple(_find_divided(arms, measure)[:NAMED]),
        tags=tuple(
            figures
            for tag in names[:MOST_TAGS]
            for arm in arms
            if (figures := _tag_figures(tag, arm, tags, measure, compared)) is not None
        ),
        tags_left_out=max(0, len(names) - MOST_TAGS),
        family=len(compared),
    )


def _find_flaky(arms: Sequence[Arm], measure: Measure) -> list[FlakyTask]:
    found = [
        FlakyTask(
            variant_id=arm.name,
            task_id=task_id,
            graded=cell.graded,
            passed=cell.passed,
            mean=measure.total(cell) / cell.graded,
            variance=measure.spread(cell) / (cell.graded - 1),
        )
        for arm in arms
        for task_id, cell in arm.tally.cells.items()
        if 0 < cell.passed < cell.graded
    ]
    return sorted(found, key=lambda task: -task.variance)


def _find_divided(arms: Sequence[Arm], measure: Measure) -> list[DividedTask]:
    if len(arms) < 2:
        return []
    found = []
    for task_id in arms[0].groups:
        means = {
            arm.name: mean
            for arm in arms
            if (cell := arm.tally.cells.get(task_id)) is not None and (mean := measure.mean(cell)) is not None
        }
        if len(means) < 2:
            continue
        lowest, highest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        if means[lowest] < means[highest]:
            found.append(
                DividedTask(
                    task_id=task_id,
                    lowest=lowest,
                    low=means[lowest],
                    highest=highest,
                    high=means[highest],
                )
            )
    return sorted(found, key=lambda task: task.low - task.high)


def _compare_tags(
    arms: Sequence[Arm], tags: Mapping[str, Sequence[str]], names: Sequence[str]
) -> dict[tuple[str, str], Comparison]:
    """Every variant against the first, tag by tag, as one family."""
    asked = {
        (tag, other.name): (_only(arms[0], tag, tags), _only(other, tag, tags))
        for tag in names
        for other in arms[1:]
    }
    return dict(zip(asked, compare_all(list(asked.values())), strict=True))


def _only(arm: Arm, tag: str, tags: Mapping[str, Sequence[str]]) -> Arm:
    """An arm with nothing but the tasks that have a tag."""
    whole = arm.tally
    tally = VariantTally(
        cells={task_id: cell for task_id, cell in whole.cells.items() if tag in tags.get(task_id, ())},
        metrics=whole.metrics,
        is_binary=whole.is_binary,
        is_verdict=whole.is_verdict,
        declared=whole.declared,
    )
    return Arm(
        name=arm.name,
        variant_id=arm.variant_id,
        tally=tally,
        groups={task_id: group for task_id, group in arm.groups.items() if tag in tags.get(task_id, ())},
        digests=arm.digests,
        population=arm.population,
    )


def _tag_figures(
    tag: str,
    arm: Arm,
    tags: Mapping[str, Sequence[str]],
    measure: Measure,
    compared: Mapping[tuple[str, str], Comparison],
) -> TagFigures | None:
    cells: dict[str, Cell] = {
        task_id: cell
        for task_id, cell in arm.tally.cells.items()
        if cell.graded and tag in tags.get(task_id, ())
    }
    observed = average(map(measure.mean, cells.values()))
    if observed is None:
        return None
    found = compared.get((tag, arm.name))
    means = [
        TaskMean(
            mean=measure.total(cell) / cell.graded,
            graded=cell.graded,
            group=arm.groups.get(task_id),
            spread=measure.spread(cell),
        )
        for task_id, cell in cells.items()
    ]
    answer = found.answer if found else None
    ask = rerun_interval if arm.population == "these_tasks" else mean_interval
    return TagFigures(
        tag=tag,
        variant_id=arm.name,
        tasks=len(cells),
        graded=sum(cell.graded for cell in cells.values()),
        observed=observed,
        interval=ask(means, is_rate=measure.is_rate, bounds=measure.bounds),
        difference=found.difference if found else None,
        p_adjusted=answer.p_adjusted if answer else None,
        conclusion=found.conclusion if found else None,
    )
