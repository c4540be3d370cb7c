"""Whether two yes-or-no facts go together, in one table a task.

A table counts trials: `both` (retried and passed, say), `first` (retried only), `second` (passed only) and
`neither`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from labrunner.analysis.inference.distributions import chi_square_tail, normal_quantile

LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A two-by-two table."""

    both: int
    first: int
    second: int
    neither: int

    @property
    def total(self) -> int:
        """Trials in it."""
        return self.both + self.first + self.second + self.neither


@dataclass(frozen=True, slots=True, kw_only=True)
class OddsRatio:
    """A common odds ratio with its interval; None where a zero count leaves it undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """How strongly two facts go together, and how surprising that is."""

    method: str
    strata: int
    """Tables in which both facts vary: only these say anything."""
    p_value: float | None
    statistic: float | None
    odds_ratio: OddsRatio


def cochran_mantel_haenszel(tables: Sequence[Table]) -> Association:
    """Association within strata: chi-square with continuity correction, and the common odds ratio."""
    telling = [table for table in tables if _variance(table) > 0]
    method = "Cochran-Mantel-Haenszel, stratified by task"
    if not telling:
        nothing = OddsRatio(value=None, low=None, high=None)
        return Association(method=method, strata=0, p_value=None, statistic=None, odds_ratio=nothing)
    excess = math.fsum(table.both - _expected(table) for table in telling)
    variance = math.fsum(_variance(table) for table in telling)
    statistic = max(0.0, abs(excess) - 0.5) ** 2 / variance
    return Association(
        method=method,
        strata=len(telling),
        p_value=chi_square_tail(statistic, 1),
        statistic=statistic,
        odds_ratio=common_odds_ratio(telling),
    )


def common_odds_ratio(tables: Sequence[Table]) -> OddsRatio:
    """Mantel and Haenszel's estimate; interval by Robins, Breslow and Greenland's variance."""
    shares = [_shares(table) for table in tables if table.total]
    total_for = math.fsum(share.in_favour for share in shares)
    total_against = math.fsum(share.against for share in shares)
    if not total_for or not total_against:
        return OddsRatio(value=None, low=None, high=None)
    variance = (
        math.fsum(share.agree * share.in_favour for share in shares) / (2 * total_for**2)
        + math.fsum(share.agree * share.against + share.differ * share.in_favour for share in shares)
        / (2 * total_for * total_against)
        + math.fsum(share.differ * share.against for share in shares) / (2 * total_against**2)
    )
    ratio = total_for / total_against
    factor = math.exp(normal_quantile((1 + LEVEL) / 2) * math.sqrt(variance))
    return OddsRatio(value=ratio, low=ratio / factor, high=ratio * factor)


@dataclass(frozen=True, slots=True)
class _Shares:
    """A table's parts of the common odds ratio and its variance."""

    agree: float
    differ: float
    in_favour: float
    against: float


def _shares(table: Table) -> _Shares:
    n = table.total
    return _Shares(
        agree=(table.both + table.neither) / n,
        differ=(table.first + table.second) / n,
        in_favour=table.both * table.neither / n,
        against=table.first * table.second / n,
    )


def _expected(table: Table) -> float:
    return (table.both + table.first) * (table.both + table.second) / table.total


def _variance(table: Table) -> float:
    """Variance of `both` given the margins; 0 where a margin is empty."""
    n = table.total
    if n < 2:
        return 0.0
    row, column = table.both + table.first, table.both + table.second
    return row * (n - row) * column * (n - column) / (n * n * (n - 1))
