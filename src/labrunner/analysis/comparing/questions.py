"""The two questions about a difference.

On these tasks: if these very tasks were run again. Only luck within tasks matters: trials are permuted.
On tasks like these: if other tasks of the same kind were drawn. Tasks (or groups) are the unit: Student's t.

Rules: a p-value by permutation, which rates have on these tasks, is turned into the error that gives it;
other scores have the error that their scatter within tasks leaves. Where every task has one trial on each
side luck can't be told from how tasks differ, and the t over tasks answers the first question too. What these
tasks do not show is not shown of others either, and they are never told less exactly: see `reconcile`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from labrunner.analysis.comparing.answer import (
    Answer,
    answer_alike,
    error_behind,
    least_p,
    make_answer,
    p_behind,
    with_p,
)
from labrunner.analysis.comparing.pairing import PairedTask, Scored, sum_by_unit
from labrunner.analysis.inference.clusters import Clustered, cluster
from labrunner.analysis.inference.distributions import t_quantile
from labrunner.analysis.inference.interval import LEVEL
from labrunner.analysis.inference.luck import Luck, measure_luck
from labrunner.analysis.inference.permutation import Contrast, PValue, permute_trials, sign_flip
from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell

FEWEST_UNITS: Final = 6
"""Fewer tasks or groups say nothing about others: no outcome of so few is rarer than 1 in 20."""
FEWEST_DIFFERING: Final = 4
"""Fewer that differ show nothing: where k of n do, t is at most the root of k(n - 1)/(n - k)."""
_ROUNDING: Final = 1e-12
_EVEN: Final = 0.5


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
        is_single=_is_single(contrasts),
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
    if _is_single(contrasts) and len(contrasts) > 1:
        return _answer_singles(contrasts, measure)
    difference = math.fsum(each.difference for each in contrasts) / len(contrasts)
    found = permute_trials(contrasts, is_rate=measure.is_rate)
    if not math.isfinite(difference) or not math.isfinite(found.deviation):
        return None
    reach = reach_of(measure)
    luck = None if measure.is_rate else measure_luck(contrasts)
    if luck is None and not measure.is_rate:
        return None  # a single trial on each side
    if luck is not None and luck.standard_error > _ROUNDING * max(found.deviation, abs(difference)):
        return answer_by_luck(difference, luck, measure, check=found)
    if not found.differing:
        # Nothing can be permuted: as much is left open as by so many trials without a failure.
        tries = min(sum(len(each.baseline) for each in contrasts), sum(len(each.other) for each in contrasts))
        return None if reach is None else answer_alike(tries, None, reach, method=found.method)
    error = _error_here(difference, found)
    return make_answer(difference, error, None, found.value, reach, method=found.method, source=found)


def answer_by_luck(difference: float, luck: Luck, measure: Measure, *, check: PValue | None = None) -> Answer:
    """The answer for measured scores that scatter within tasks."""
    error, freedom = luck.standard_error, luck.freedom
    p = p_behind(difference, error, freedom)
    return make_answer(difference, error, freedom, p, reach_of(measure), method=luck.method, check=check)


def _is_single(contrasts: Sequence[Contrast]) -> bool:
    return all(len(each.baseline) == 1 == len(each.other) for each in contrasts)


def _error_here(difference: float, found: PValue) -> float:
    """The standard error behind p.

    Nobody decides by a p over a half, and the error behind it may be anything: there it is that of the
    permutations, or what would give a half.
    """
    if found.value > _EVEN:
        return max(found.deviation, error_behind(difference, _EVEN, None) or 0.0)
    return error_behind(difference, found.value, None) or found.deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """Differences of tasks that are a sample of others."""

    values: Sequence[float]
    groups: Sequence[str | None]
    sums: Sequence[float]
    """By unit."""
    trials: Sequence[int]
    """Of a task, on the side that has more."""

    @property
    def unit(self) -> str:
        return "groups" if any(group is not None for group in self.groups) else "tasks"


def ask_others(scored: Sequence[Scored], measure: Measure) -> Answer | None:
    """On tasks like these; None with fewer units than can say anything, or without any spread to go by."""
    drawn = _Drawn(
        values=[each for _, each in scored],
        groups=[task.group for task, _ in scored],
        sums=sum_by_unit(scored),
        trials=[max(1, task.baseline.graded, task.other.graded) for task, _ in scored],
    )
    return _answer_units(drawn, measure) if len(drawn.sums) >= FEWEST_UNITS else None


def _answer_singles(contrasts: Sequence[Contrast], measure: Measure) -> Answer | None:
    """The t over tasks: of single trials, luck and how tasks differ are one spread. Groups share no luck."""
    values = [each.difference for each in contrasts]
    drawn = _Drawn(values=values, groups=[None] * len(values), sums=values, trials=[1] * len(values))
    return _answer_units(drawn, measure)


def _answer_units(drawn: _Drawn, measure: Measure) -> Answer | None:
    found = cluster(drawn.values, drawn.groups)
    if found is None:
        return None
    unit, reach = drawn.unit, reach_of(measure)
    check = sign_flip(drawn.sums, unit)
    if not check.differing:
        if reach is None:
            return None
        answer = answer_alike(found.effective_units, found.freedom, reach, method=f"no {unit[:-1]} differs")
        return replace(answer, check=check)
    error = _error(found, drawn, measure)
    p, method = p_behind(found.mean, error, found.freedom), f"t over {unit}"
    floor = _floor(found, measure)
    if p < floor:
        p, method = floor, f"sign-flip over {unit}"
        if not measure.is_rate:
            error = error_behind(found.mean, p, found.freedom) or error
    sweep = found.units if measure.is_rate else None
    return make_answer(found.mean, error, found.freedom, p, reach, method=method, check=check, sweep=sweep)


def reconcile(
    here: Answer | None, others: Answer | None, *, is_single: bool, reach: float | None
) -> tuple[Answer | None, Answer | None]:
    """The two answers, so that nothing is shown of other tasks that these do not show.

    Luck that could have made a difference on these tasks could have made it on others: the second p can't be
    the smaller one. By luck it may come out so all the same, and then both questions are answered by the two
    tests together, with the geometric mean of their p-values: the larger alone would cost power, the smaller
    alone false alarms. Where every task has one trial on each side both tests read the same numbers, and the
    second answers both questions. Nor is the first interval the wider one: luck is a part of both.
    """
    if here is None or others is None:
        return here, others
    if here.p <= others.p:
        return _no_wider(here, others, reach), others
    if is_single:
        return others, others
    if others.p >= _EVEN:
        return here, others
    shared = math.sqrt(others.p * min(here.p, _EVEN))
    both = with_p(others, shared, reach, f"{others.method}, with {here.method}")
    return both, both


def _no_wider(here: Answer, others: Answer, reach: float | None) -> Answer:
    """The first answer, by the distribution of the second where its own makes it the less exact one."""
    if here.p > _EVEN or here.half(LEVEL, reach) <= others.half(LEVEL, reach):
        return here
    return with_p(replace(here, freedom=others.freedom), here.p, reach, here.method)


def _floor(found: Clustered, measure: Measure) -> float:
    """The least p: of rates, and of other scores where all differences are equal, for they show no spread."""
    is_even = found.standard_error <= _ROUNDING * abs(found.mean)
    return least_p(found.units) if measure.is_rate or is_even else 0.0


def _error(found: Clustered, drawn: _Drawn, measure: Measure) -> float:
    """The standard error; of rates no smaller than a perfect record on as many units would leave."""
    if not measure.is_rate:
        return found.standard_error
    quantile = t_quantile(found.freedom, (1 + LEVEL) / 2)
    perfect = abs(found.mean) * quantile / (found.effective_units + quantile * quantile)
    seen = found.standard_error * found.standard_error + _steps(drawn.trials, found.units)
    return max(math.sqrt(seen), perfect)


def step_share(units: float) -> float:
    """How much of a squared step is added to the sum of squares of rates' differences, which come in steps.

    It falls as the chance of a clean sweep does: with six tasks outcomes are so few that Student's t
    has too many false alarms, with ten it needs no help (`scripts/simulate --limits`). Fewer than six, which
    only single trials of these tasks are asked about, show nothing in any case.
    """
    return math.pow(2.0, 5 - max(units, FEWEST_UNITS))


def _steps(trials: Sequence[int], units: int) -> float:
    """What rates add to the squared error: their differences come in steps of one trial."""
    count = len(trials)
    step = math.fsum(1 / (each * each) for each in trials) / count
    return step_share(units) * step / (count * (count - 1))


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
