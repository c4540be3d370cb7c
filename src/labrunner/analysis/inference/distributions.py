"""Quantiles and tails, from scipy, which is loaded when the first one is asked for."""

from importlib import import_module
from typing import Any

from labrunner.analysis.inference.special import load_special


def t_quantile(freedom: float, probability: float) -> float:
    """Quantile of Student's t."""
    return float(load_special().stdtrit(freedom, probability))


def normal_quantile(probability: float) -> float:
    """Quantile of the standard normal distribution."""
    return float(load_special().ndtri(probability))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Chance of a chi-square this large or larger."""
    return float(load_special().chdtrc(freedom, statistic))


def hypergeometric_chances(total: int, row: int, column: int) -> list[float]:
    """Chance of each count that a two-by-two table's corner can have, given its margins, the lowest first."""
    numpy, gammaln = import_module("numpy"), load_special().gammaln

    def log_choose(n: Any, k: Any) -> Any:  # noqa: ANN401 - numbers or arrays of numbers
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    corner = numpy.arange(max(0, row + column - total), min(row, column) + 1)
    logs = log_choose(row, corner) + log_choose(total - row, column - corner) - log_choose(total, column)
    chances: list[float] = numpy.exp(logs).tolist()
    return chances


def t_tail(freedom: float, statistic: float) -> float:
    """Chance of a Student's t this large or larger, without losing small ones."""
    return float(load_special().stdtr(freedom, -statistic))


def normal_tail(statistic: float) -> float:
    """Chance of a normal deviate this large or larger."""
    return float(load_special().ndtr(-statistic))


def noncentral_t_cdf(freedom: float, shift: float, statistic: float) -> float:
    """Chance that a noncentral t is at most `statistic`."""
    return float(load_special().nctdtr(freedom, shift, statistic))


def chi_square_quantile(probability: float, freedom: float) -> float:
    """Quantile of a chi-square."""
    return float(load_special().chdtri(freedom, 1 - probability))


def beta_quantile(probability: float, one: float, other: float) -> float:
    """Quantile of a beta distribution."""
    return float(load_special().betaincinv(one, other, probability))


def f_quantile(probability: float, above: float, below: float) -> float:
    """Quantile of F with so many degrees of freedom above and below the line."""
    return float(load_special().fdtri(above, below, probability))
