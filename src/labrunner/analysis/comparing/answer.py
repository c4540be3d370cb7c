"""What is answered about a difference: error, interval and p from one source.

Rules: an interval leaves out zero exactly when its p-value is below what is left of 1 at the interval's
level. Of rates neither goes below a clean sweep: as many units that all favour one side are 1 in 2 to their
number less one where neither side is better, and leave open that some others favour the other one. So no p is
smaller, no interval narrower, and one more unit in favour never makes what is shown less sure.
"""

import math
from dataclasses import dataclass, replace

from labrunner.analysis.inference.distributions import normal_quantile, normal_tail, t_quantile, t_tail
from labrunner.analysis.inference.interval import LEVEL
from labrunner.analysis.inference.permutation import PValue


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
    sweep: int | None = None
    """How many units rates come from: the interval is no narrower than a clean sweep of these leaves it."""
    check: PValue | None = None
    """A permutation, which assumes less than Student's t: recorded to look at, not to decide by."""

    def span(self, level: float, reach: float | None) -> Span:
        """The interval at another level, cut where no difference can be."""
        half = self.half(level, reach)
        limit = math.inf if reach is None else reach
        return Span(
            low=max(-limit, self.difference - half), high=min(limit, self.difference + half), level=level
        )

    def half(self, level: float, reach: float | None) -> float:
        """Half of the interval's width, before it is cut."""
        quantile = _quantile(self.freedom, level)
        if self.alike is not None and reach is not None:
            return reach * quantile * quantile / (self.alike + quantile * quantile)
        half = quantile * self.standard_error
        if self.sweep is None or reach is None:
            return half
        return max(half, _swept(abs(self.difference), self.sweep, level, reach))


def _swept(difference: float, units: int, level: float, reach: float) -> float:
    """Half the width that a clean sweep leaves: at its end so many units all favour one side 1 time in 40.

    (At 95%; Clopper and Pearson's, of signs.) Where even coins would do so more often, zero is within it, and
    how far it goes beyond is the same for every difference: more in favour never makes the end go down.
    """
    against = 1 - math.pow((1 - level) / 2, 1 / units)
    if against <= 0.5:
        return 2 * against * difference
    return difference + (2 * against - 1) * reach


def least_p(units: float) -> float:
    """The p of a clean sweep of so many units by signs alone, exactly: of rates none is smaller."""
    return math.pow(2.0, 1 - units)


def make_answer(  # noqa: PLR0913 - what an answer is made of
    difference: float,
    error: float,
    freedom: float | None,
    p: float,
    reach: float | None,
    *,
    method: str,
    source: PValue | None = None,
    check: PValue | None = None,
    sweep: int | None = None,
) -> Answer:
    """An answer that is not adjusted for others."""
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
        sweep=sweep,
        check=check,
    )
    return judge_at(bare, share=1, p_adjusted=p, reach=reach)


def answer_alike(alike: float, freedom: float | None, reach: float, *, method: str) -> Answer:
    """What so many units (or trials) leave open, none of which differs."""
    quantile = _quantile(freedom, LEVEL)
    error = reach * quantile / (alike + quantile * quantile)
    answer = make_answer(0.0, error, freedom, 1.0, reach, method=method)
    return judge_at(replace(answer, alike=alike), share=1, p_adjusted=1.0, reach=reach)


def judge_at(answer: Answer, *, share: int, p_adjusted: float, reach: float | None) -> Answer:
    """The answer within a family: its p adjusted, its interval at the level at which it was judged."""
    level = 1 - (1 - LEVEL) / share
    return replace(answer, p_adjusted=p_adjusted, interval=answer.span(level, reach))


def with_p(answer: Answer, p: float, reach: float | None, method: str) -> Answer:
    """The answer with another p, found by another method, and the error behind it."""
    error = error_behind(answer.difference, p, answer.freedom)
    if error is None:
        return answer
    found = replace(answer, p=p, standard_error=error, method=method)
    return judge_at(found, share=1, p_adjusted=p, reach=reach)


def error_behind(difference: float, p: float, freedom: float | None) -> float | None:
    """The standard error that would give this p; None where none does."""
    if not difference or not 0.0 < p < 1.0:
        return None
    quantile = -normal_quantile(p / 2) if freedom is None else -t_quantile(freedom, p / 2)
    return abs(difference) / quantile if quantile > 0 and math.isfinite(quantile) else None


def p_behind(difference: float, error: float, freedom: float | None) -> float:
    """The two-sided p that this standard error gives."""
    if not error:
        return 0.0
    statistic = abs(difference) / error
    return min(1.0, 2 * (normal_tail(statistic) if freedom is None else t_tail(freedom, statistic)))


def _quantile(freedom: float | None, level: float) -> float:
    share = (1 - level) / 2
    # The lower tail is asked for: near 1 a double can't tell levels apart.
    return -normal_quantile(share) if freedom is None else -t_quantile(freedom, share)
