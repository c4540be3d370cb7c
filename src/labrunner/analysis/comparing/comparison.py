"""Is the other arm better than the baseline, by how much, how sure, and could errors or retries have bent it?

Rules: arms are compared task by task, and two questions are told apart: on these tasks, and on tasks like
these (`labrunner.analysis.comparing.questions`). The conclusion goes by the second unless the experiment is
about these very tasks. It is told only when it would be the same however the errored trials had ended;
otherwise it is undecided because of errors, which is not the same as no difference.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from labrunner.analysis.comparing.answer import Answer, Span, judge_at, least_p
from labrunner.analysis.comparing.flips import Flip, find_flips
from labrunner.analysis.comparing.pairing import (
    Arm,
    Dropped,
    Pairing,
    Scored,
    differences,
    extreme_differences,
    pair_up,
    sum_by_unit,
)
from labrunner.analysis.comparing.questions import FEWEST_UNITS, ask_both, fill, reach_of
from labrunner.analysis.describing.variance import ALPHA, detectable
from labrunner.analysis.inference.permutation import adjust_holm, holm_shares
from labrunner.analysis.sums.measure import (
    Measure,
    average,
    choose_measure,
    declared_of,
    is_fitting,
    shared_metric,
    whole_means,
)
from labrunner.analysis.sums.tally import Cell, directions
from labrunner.errors import InputError
from labrunner.experiment.resolved import Population

FLIPS: Final = 10
Finding = Literal["better", "worse", "no difference shown"]
Conclusion = Literal[
    "better",
    "worse",
    "no difference shown",
    "undecided because of errors",
    "too few tasks",
    "too few groups",
    "not enough data",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The difference with errored (or retried) trials scored for the baseline, and for the other arm."""

    trials: int
    tasks: int
    """Tasks behind it: also those of which one side has no grade, which are in no observed difference."""
    low: float
    high: float
    at_low: Answer | None
    at_high: Answer | None
    """Answers to the deciding question then; None for retries, whose effect is judged by the sign alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two arms, with everything needed to judge what was found."""

    baseline: str
    other: str
    measure: str
    better: Literal["higher", "lower"]
    population: Population
    """Which question the conclusion answers."""
    tasks: int
    """Tasks graded on both sides: the n behind the difference."""
    units: int
    unit: str
    baseline_mean: float | None
    other_mean: float | None
    difference: float | None
    """The other arm's mean minus the baseline's."""
    reach: float | None
    """The largest difference that the scale allows; None where nothing bounds it."""
    here: Answer | None
    """On these tasks; None where no task is graded on both sides."""
    others: Answer | None
    """On tasks like these; None with too few tasks or groups."""
    family: int
    """How many comparisons p-values and intervals are adjusted for."""
    wins: int
    """Tasks on which the other arm did better."""
    ties: int
    losses: int
    up: tuple[Flip, ...]
    down: tuple[Flip, ...]
    dropped: tuple[Dropped, ...]
    detectable: float | None
    """The difference that this many tasks and replications show with 80% power, if anything on the scale, in
    a family of so many comparisons."""
    errors: Range | None
    """None when nothing errored, or when the measure has no bounds."""
    has_unbounded_errors: bool
    """Whether trials errored on a scale without bounds, so that nothing bounds their effect."""
    retries: Range | None
    has_unbounded_retries: bool
    """Whether trials were retried on a scale without bounds, so that nothing bounds their effect."""
    marked: int
    """Trials of both arms that somebody marked as not to be used: left out."""
    with_marked: float | None
    """The difference with these as they ended; None where there are none, or where scores don't fit."""
    conclusion: Conclusion

    @property
    def answer(self) -> Answer | None:
        """What the conclusion goes by."""
        return self.here if self.population == "these_tasks" else self.others

    @property
    def is_lower_better(self) -> bool:
        """Whether a negative difference is good."""
        return self.better == "lower"


def compare_all(pairs: Sequence[tuple[Arm, Arm]]) -> tuple[Comparison, ...]:
    """Compare (baseline, other) pairs as one family. Raises InputError where nobody knows what is better."""
    found = [_compare(baseline, other) for baseline, other in pairs]
    here = adjust_family([one.here for one in found], [one.reach for one in found])
    others = adjust_family([one.others for one in found], [one.reach for one in found])
    judged = [
        replace(one, here=first, others=second, family=len(found), detectable=_detectable(one, len(found)))
        for one, first, second in zip(found, here, others, strict=True)
    ]
    at_low = _adjust_known([_extreme(one, is_low=True) for one in judged])
    at_high = _adjust_known([_extreme(one, is_low=False) for one in judged])
    return tuple(
        replace(one, conclusion=_conclude(one, low, high))
        for one, low, high in zip(judged, at_low, at_high, strict=True)
    )


def is_conclusion_safe_from_retries(comparison: Comparison) -> bool:
    """Whether the difference keeps its sign however the retried trials are scored."""
    retries, difference = comparison.retries, comparison.difference
    if comparison.has_unbounded_retries:
        return False
    if retries is None or not difference:
        return True
    return (retries.low > 0) if difference > 0 else (retries.high < 0)


def find(difference: float, p: float, *, is_lower_better: bool) -> Finding:
    """What a difference with this p-value shows."""
    if p >= ALPHA or not difference:
        return "no difference shown"
    return "better" if (difference < 0) == is_lower_better else "worse"


def _compare(baseline: Arm, other: Arm) -> Comparison:
    _refuse_opposed(baseline, other)
    measure, pairing = choose_measure(baseline.tally, other.tally), pair_up(baseline, other)
    scored = differences(pairing, measure)
    population: Population = (
        "these_tasks" if {baseline.population, other.population} == {"these_tasks"} else "tasks_like_these"
    )
    here, others = ask_both([fill(task, measure) for task, _ in scored], scored, measure)
    errors = _count(pairing, lambda cell: cell.errors)
    retried = _count(pairing, lambda cell: cell.retried_graded + cell.retried_errors)
    up, down = find_flips(baseline, other, measure, scored)
    units = len(sum_by_unit(scored))
    return Comparison(
        baseline=baseline.name,
        other=other.name,
        measure=measure.name,
        better=measure.better,
        population=population,
        tasks=len(scored),
        units=units,
        unit=pairing.unit,
        baseline_mean=average(measure.mean(task.baseline) for task, _ in scored),
        other_mean=average(measure.mean(task.other) for task, _ in scored),
        difference=average(difference for _, difference in scored),
        reach=reach_of(measure),
        here=here,
        others=others,
        family=1,
        wins=len(up),
        ties=len(scored) - len(up) - len(down),
        losses=len(down),
        up=tuple(up[:FLIPS]),
        down=tuple(down[:FLIPS]),
        dropped=pairing.dropped,
        detectable=None,
        errors=_range(pairing, measure, population, errors, of_errors=True),
        has_unbounded_errors=bool(errors) and measure.bounds is None,
        retries=_range(pairing, measure, population, retried),
        has_unbounded_retries=bool(retried) and measure.bounds is None,
        marked=baseline.tally.invalidated + other.tally.invalidated,
        with_marked=_with_marked(baseline, other, measure),
        conclusion=_without_answer(pairing, scored, population),
    )


def _refuse_opposed(*arms: Arm) -> None:
    """Raise InputError where each arm knows which way its metric is better, and the other knows otherwise."""
    name = shared_metric(*(arm.tally for arm in arms))
    known = [declared_of(name, arm.tally) for arm in arms]
    ways = [directions(declared) for declared in known]
    if any(len(way) != 1 for way in ways) or ways[0] == ways[1]:
        return
    told = [
        f"{arm.name} {'declares nothing of it' if None in declared else f'says that {way.pop()} is better'}"
        for arm, declared, way in zip(arms, known, ways, strict=True)
    ]
    raise InputError(
        "",
        f"comparing {arms[1].name} with {arms[0].name}: it is not known which way `{name}` is better, for "
        f"{' and '.join(told)}; expected runs whose tasks declare the same `better` in `grader: metric:`",
    )


def _with_marked(baseline: Arm, other: Arm, measure: Measure) -> float | None:
    """The difference with trials that somebody marked as they ended."""
    sides = baseline.tally, other.tally
    if not any(side.marks for side in sides) or not is_fitting(measure, *sides):
        return None
    before, after = (whole_means(side, measure) for side in sides)
    digests = baseline.digests, other.digests
    shared = (
        task_id
        for task_id in before
        if task_id in after and digests[0].get(task_id) == digests[1].get(task_id)
    )
    return average(after[task_id] - before[task_id] for task_id in shared)


def _without_answer(pairing: Pairing, scored: Sequence[Scored], population: Population) -> Conclusion:
    """What is concluded where no question has an answer: errors may be all that is in the way."""
    finished = [(task, 0.0) for task in pairing.tasks if _is_finished(task.baseline, task.other)]
    if len(sum_by_unit(finished)) >= FEWEST_UNITS > len(sum_by_unit(scored)):
        return "undecided because of errors"
    if len(sum_by_unit(scored)) >= FEWEST_UNITS:
        return "no difference shown"
    if scored and population == "these_tasks":  # of these tasks any number is enough
        return "not enough data" if any(difference for _, difference in scored) else "no difference shown"
    if not scored:
        return "not enough data"
    return "too few groups" if pairing.unit == "groups" else "too few tasks"


def improvement(comparison: Comparison, better: str, level: float) -> Span | None:
    """By how much one arm of a comparison does better than the other, however errored trials had ended.

    Ends are those that the least and the most favourable outcome of the errored trials leave. None where
    there is no answer, or where nothing bounds what an errored trial would have scored.
    """
    found = open_span(comparison, level)
    if found is None or (better == comparison.other) == (not comparison.is_lower_better):
        return found
    return Span(low=-found.high, high=-found.low, level=level)


def open_span(comparison: Comparison, level: float) -> Span | None:
    """The interval of the difference, however errored trials had ended; None as for `improvement`."""
    answers = [comparison.answer]
    if comparison.errors is not None:
        answers += [comparison.errors.at_low, comparison.errors.at_high]
    known = [answer for answer in answers if answer is not None]
    if comparison.has_unbounded_errors or len(known) < len(answers):
        return None
    spans = [answer.span(level, comparison.reach) for answer in known]
    return Span(low=min(span.low for span in spans), high=max(span.high for span in spans), level=level)


def _is_finished(*cells: Cell) -> bool:
    return all(cell.graded + cell.errors for cell in cells)


def is_out_of_reach(answer: Answer, family: int) -> bool:
    """Whether not even a clean sweep of so few units is sure enough for one of so many comparisons."""
    return answer.sweep is not None and family * least_p(answer.sweep) >= ALPHA


def _detectable(comparison: Comparison, family: int) -> float | None:
    """What is shown four times out of five, though so many comparisons share the 5%."""
    answer = comparison.others
    if answer is None or answer.freedom is None or is_out_of_reach(answer, family):
        return None
    found = detectable(answer.standard_error, answer.freedom, family)
    return found if comparison.reach is None or found < comparison.reach else None


def _range(
    pairing: Pairing, measure: Measure, population: Population, trials: int, *, of_errors: bool = False
) -> Range | None:
    if not trials or measure.bounds is None:
        return None
    low_end, high_end = measure.bounds
    sides = []
    for ends in ((high_end, low_end), (low_end, high_end)):
        scored = extreme_differences(pairing, measure, ends=ends, errors=of_errors, retried=not of_errors)
        sides.append((average(each for _, each in scored), scored, ends))
    (low, at_low, low_ends), (high, at_high, high_ends) = sides
    if low is None or high is None:
        return None
    return Range(
        trials=trials,
        tasks=len(at_low),
        low=low,
        high=high,
        at_low=_ask_at(pairing, measure, population, at_low, low_ends) if of_errors else None,
        at_high=_ask_at(pairing, measure, population, at_high, high_ends) if of_errors else None,
    )


def _ask_at(
    pairing: Pairing,
    measure: Measure,
    population: Population,
    scored: Sequence[Scored],
    ends: tuple[float, float],
) -> Answer | None:
    """The answer that an extreme outcome of the errored trials would have given."""
    finished = [task for task in pairing.tasks if _is_finished(task.baseline, task.other)]
    contrasts = [fill(task, measure, baseline=ends[0], other=ends[1]) for task in finished]
    here, others = ask_both(contrasts, scored, measure)
    return here if population == "these_tasks" else others


def _count(pairing: Pairing, of: Callable[[Cell], int]) -> int:
    return sum(of(task.baseline) + of(task.other) for task in pairing.tasks)


def adjust_family(answers: Sequence[Answer | None], reaches: Sequence[float | None]) -> list[Answer | None]:
    """Holm over all that was asked, in p-values and intervals; what has no answer counts as not shown."""
    p_values = [1.0 if answer is None else answer.p for answer in answers]
    return [
        None if answer is None else judge_at(answer, share=share, p_adjusted=p_adjusted, reach=reach)
        for answer, reach, p_adjusted, share in zip(
            answers, reaches, adjust_holm(p_values), holm_shares(p_values, ALPHA), strict=True
        )
    ]


def _extreme(comparison: Comparison, *, is_low: bool) -> float | None:
    errors = comparison.errors
    answer = comparison.answer
    if errors is not None:
        answer = errors.at_low if is_low else errors.at_high
    return None if answer is None else answer.p


def _adjust_known(p_values: Sequence[float | None]) -> list[float | None]:
    adjusted = adjust_holm([1.0 if p is None else p for p in p_values])
    return [None if p is None else each for p, each in zip(p_values, adjusted, strict=True)]


def _conclude(comparison: Comparison, p_low: float | None, p_high: float | None) -> Conclusion:
    answer, errors = comparison.answer, comparison.errors
    has_tasks = comparison.units >= FEWEST_UNITS or comparison.conclusion == "no difference shown"
    if comparison.has_unbounded_errors and has_tasks:
        return "undecided because of errors"
    if answer is None or comparison.difference is None:
        return comparison.conclusion
    if comparison.has_unbounded_errors:
        return "undecided because of errors"
    lower = comparison.is_lower_better
    observed = find(comparison.difference, answer.p_adjusted, is_lower_better=lower)
    if errors is None or p_low is None or p_high is None:
        return observed
    same = {
        observed,
        find(errors.low, p_low, is_lower_better=lower),
        find(errors.high, p_high, is_lower_better=lower),
    }
    return observed if len(same) == 1 else "undecided because of errors"
