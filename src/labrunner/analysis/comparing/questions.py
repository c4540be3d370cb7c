"""The two questions about a difference, each with its answer: error, interval and p from one source.

On these tasks: if these very tasks were run again. Only luck within tasks matters: trials are permuted.
On tasks like these: if other tasks of the same kind were drawn. Tasks (or groups) are the unit: Student's t.

Rules: an interval leaves out zero exactly when its p-value is below what is left of 1 at the interval's
level, for both come from the same standard error. A p-value by permutation, which rates have on these tasks,
is turned into the error that gives it; other scores have the error that their scatter within tasks leaves.
What these tasks do not show is not shown of others either: see `reconcile`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from labrunner.analysis.comparing.pairing import PairedTask, Scored, sum_by_unit
from labrunner.analysis.inference.clusters import Clustered, cluster
from labrunner.analysis.inference.distributions import normal_quantile, normal_tail, t_quantile, t_tail
from labrunner.analysis.inference.interval import LEVEL
from labrunner.analysis.inference.luck import measure_luck
from labrunner.analysis.inference.permutation import Contrast, PValue, permute_trials, sign_flip
from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell

FEWEST_UNITS: Final = 6
"""Fewer tasks or groups say nothing about others: no outcome of so few is rarer than 1 in 20."""
FEWEST_DIFFERING: Final = 4
"""Fewer that differ show nothing: where k of n do, t is at most the root of k(n - 1)/(n - k)."""
_ROUNDING: Final = 1e-12
_EVEN: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An interval of a difference."""

    low: float
    high: float
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question's answer, before and after the adjustment for several comparisons."""

    difference: float
    standard_error: float
    freedom: float | None
    """Degrees of freedom of Student's t; None: normal."""
    p: float
    p_adjusted: float
    """Holm's adjustment over the family."""
    interval: Span
    """At the level at which this comparison was judged within its family."""
    method: str
    draws: int | None = None
    seed: int | None = None
    alike: float | None = None
    """How many units, or trials, there are, where none differs: the interval is what so many leave open."""
    check: PValue | None = None
    """A permutation, which assumes less than Student's t: recorded to look at, not to decide by."""

    def span(self, level: float, reach: float | None) -> Span:
        """The interval at another level, cut where no difference can be."""
        half = self._half(_quantile(self.freedom, level), reach)
        limit = math.inf if reach is None else reach
        return Span(
            low=max(-limit, self.difference - half), high=min(limit, self.difference + half), level=level
        )

    def _half(self, quantile: float, reach: float | None) -> float:
        if self.alike is None or reach is None:
            return quantile * self.standard_error
        return reach * quantile * quantile / (self.alike + quantile * quantile)


def reach_of(measure: Measure) -> float | None:
    """The largest difference that there can be; None where nothing bounds it."""
    return None if measure.bounds is None else measure.bounds[1] - measure.bounds[0]


def ask_both(
    contrasts: Sequence[Contrast], scored: Sequence[Scored], measure: Measure
) -> tuple[Answer | None, Answer | None]:
    """On these tasks, and on tasks like these."""
    return reconcile(
        answer_here(contrasts, measure) if contrasts else None,
        ask_others(scored, measure),
        is_single=all(len(each.baseline) == 1 == len(each.other) for each in contrasts),
        reach=reach_of(measure),
    )


def ask_here(tasks: Sequence[tuple[Cell, Cell]], measure: Measure) -> Answer | None:
    """On these tasks; None where no task is graded on both sides."""
    graded = [(a, b) for a, b in tasks if a.graded and b.graded]
    if not graded:
        return None
    contrasts = [Contrast(baseline=measure.values(a), other=measure.values(b)) for a, b in graded]
    return answer_here(contrasts, measure)


def answer_here(contrasts: Sequence[Contrast], measure: Measure) -> Answer | None:
    """The same from scores. None where they are too large to be reckoned with, or can't tell of any luck."""
    difference = math.fsum(each.difference for each in contrasts) / len(contrasts)
    found = permute_trials(contrasts, is_rate=measure.is_rate)
    if not math.isfinite(difference) or not math.isfinite(found.deviation):
        return None
    reach = reach_of(measure)
    luck = None if measure.is_rate else measure_luck(contrasts)
    if luck is None and not measure.is_rate:
        return None  # a single trial on each side
    if luck is not None and luck.standard_error > _ROUNDING * max(found.deviation, abs(difference)):
        p = min(1.0, 2 * _tail(luck.freedom, abs(difference) / luck.standard_error))
        return _answer(
            difference, luck.standard_error, luck.freedom, p, reach, method=luck.method, check=found
        )
    if not found.differing:
        # Nothing can be permuted: as much is left open as by so many trials without a failure.
        tries = min(sum(len(each.baseline) for each in contrasts), sum(len(each.other) for each in contrasts))
        return None if reach is None else _without_difference(tries, None, reach, method=found.method)
    error = _error_here(difference, found)
    return _answer(difference, error, None, found.value, reach, method=found.method, source=found)


def _error_here(difference: float, found: PValue) -> float:
    """The standard error behind p.

    Nobody decides by a p over a half, and the error behind it may be anything: there it is that of the
    permutations, or what would give a half.
    """
    if found.value > _EVEN:
        return max(found.deviation, _error_behind(difference, _EVEN, None) or 0.0)
    return _error_behind(difference, found.value, None) or found.deviation


def ask_others(scored: Sequence[Scored], measure: Measure) -> Answer | None:
    """On tasks like these; None with fewer units than can say anything, or without any spread to go by."""
    found = cluster([each for _, each in scored], [task.group for task, _ in scored]) if scored else None
    if found is None or found.units < FEWEST_UNITS:
        return None
    grouped = any(task.group is not None for task, _ in scored)
    unit = "groups" if grouped else "tasks"
    check = sign_flip(sum_by_unit(scored), unit)
    reach = reach_of(measure)
    if not check.differing:
        if reach is None:
            return None
        answer = _without_difference(
            found.effective_units, found.freedom, reach, method=f"no {unit[:-1]} differs"
        )
        return replace(answer, check=check)
    error = _error(found, scored, measure)
    p = 2 * _tail(found.freedom, abs(found.mean) / error) if error else 0.0
    floor, method = _floor(found, check), f"t over {unit}"
    if p < floor:
        p, method = floor, f"sign-flip over {unit}"
        error = _error_behind(found.mean, p, found.freedom) or error
    return _answer(found.mean, error, found.freedom, p, reach, method=method, check=check)


def reconcile(
    here: Answer | None, others: Answer | None, *, is_single: bool, reach: float | None
) -> tuple[Answer | None, Answer | None]:
    """The two answers, so that nothing is shown of other tasks that these do not show.

    Luck that could have made a difference on these tasks could have made it on others: the second p can't be
    the smaller one. By luck it may come out so all the same, and then both questions are answered by the two
    tests together, with the geometric mean of their p-values: the larger alone would cost power, the smaller
    alone false alarms. Where every task has one trial on each side both tests read the same numbers, and the
    first, which has few outcomes then, takes over what the second says.
    """
    if here is None or others is None or here.p <= others.p or others.p >= _EVEN:
        return here, others
    if is_single:
        return _with_p(here, others.p, reach, others.method), others
    shared = math.sqrt(others.p * min(here.p, _EVEN))
    method = f"{others.method}, with {here.method}"
    return _with_p(here, shared, reach, method), _with_p(others, shared, reach, method)


def _with_p(answer: Answer, p: float, reach: float | None, method: str) -> Answer:
    """The answer with another p, found by another method, and the error behind it."""
    error = _error_behind(answer.difference, p, answer.freedom)
    if error is None:
        return answer
    found = replace(answer, p=p, standard_error=error, method=method)
    return judge_at(found, share=1, p_adjusted=p, reach=reach)


def _floor(found: Clustered, check: PValue) -> float:
    """The p of the exact sign-flip where all differences are equal, for they show no spread."""
    return 2.0 ** (1 - check.differing) if found.standard_error <= _ROUNDING * abs(found.mean) else 0.0


def _error(found: Clustered, scored: Sequence[Scored], measure: Measure) -> float:
    """The standard error; of rates no smaller than a perfect record on as many units would leave."""
    if not measure.is_rate:
        return found.standard_error
    quantile = t_quantile(found.freedom, (1 + LEVEL) / 2)
    perfect = abs(found.mean) * quantile / (found.effective_units + quantile * quantile)
    seen = found.standard_error * found.standard_error + _steps(scored, found.units)
    return max(math.sqrt(seen), perfect)


def step_share(units: float) -> float:
    """How much of a squared step is added to the sum of squares of rates' differences, which come in steps.

    It falls as the chance of a clean sweep does: with six tasks outcomes are so few that Student's t
    has too many false alarms, with ten it needs no help (`scripts/simulate --limits`).
    """
    return math.pow(2.0, 5 - units)


def _steps(scored: Sequence[Scored], units: int) -> float:
    """What rates add to the squared error: their differences come in steps of one trial."""
    count = len(scored)
    trials = (max(1, task.baseline.graded, task.other.graded) for task, _ in scored)
    step = math.fsum(1 / (each * each) for each in trials) / count
    return step_share(units) * step / (count * (count - 1))


def _answer(  # noqa: PLR0913 - what an answer is made of
    difference: float,
    error: float,
    freedom: float | None,
    p: float,
    reach: float | None,
    *,
    method: str,
    source: PValue | None = None,
    check: PValue | None = None,
) -> Answer:
    bare = Answer(
        difference=difference,
        standard_error=error,
        freedom=freedom,
        p=p,
        p_adjusted=p,
        interval=Span(low=difference, high=difference, level=0.0),
        method=method,
        draws=source.draws if source else None,
        seed=source.seed if source else None,
        check=check,
    )
    return judge_at(bare, share=1, p_adjusted=p, reach=reach)


def _without_difference(alike: float, freedom: float | None, reach: float, *, method: str) -> Answer:
    """What so many units (or trials) leave open, none of which differs."""
    quantile = _quantile(freedom, LEVEL)
    error = reach * quantile / (alike + quantile * quantile)
    answer = _answer(0.0, error, freedom, 1.0, reach, method=method)
    return judge_at(replace(answer, alike=alike), share=1, p_adjusted=1.0, reach=reach)


def judge_at(answer: Answer, *, share: int, p_adjusted: float, reach: float | None) -> Answer:
    """The answer within a family: its p adjusted, its interval at the level at which it was judged."""
    level = 1 - (1 - LEVEL) / share
    return replace(answer, p_adjusted=p_adjusted, interval=answer.span(level, reach))


def _error_behind(difference: float, p: float, freedom: float | None) -> float | None:
    """The standard error that would give this p; None where none does."""
    if not difference or not 0.0 < p < 1.0:
        return None
    quantile = -normal_quantile(p / 2) if freedom is None else -t_quantile(freedom, p / 2)
    return abs(difference) / quantile if quantile > 0 and math.isfinite(quantile) else None


def _quantile(freedom: float | None, level: float) -> float:
    share = (1 - level) / 2
    # The lower tail is asked for: near 1 a double can't tell levels apart.
    return -normal_quantile(share) if freedom is None else -t_quantile(freedom, share)


def _tail(freedom: float | None, statistic: float) -> float:
    return normal_tail(statistic) if freedom is None else t_tail(freedom, statistic)


def fill(
    task: PairedTask, measure: Measure, *, baseline: float | None = None, other: float | None = None
) -> Contrast:
    """A task's scores; with errored trials scored as given, where anything is."""
    return Contrast(
        baseline=measure.values(task.baseline) + _fill(baseline, task.baseline.errors),
        other=measure.values(task.other) + _fill(other, task.other.errors),
    )


def _fill(value: float | None, count: int) -> list[float]:
    return [] if value is None else [value] * count
