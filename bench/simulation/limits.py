"""What no rule can have, and what ours has where outcomes are so few that they can be counted.

Rule: nothing is drawn here. Chances are summed over every outcome, and the product's own function is asked
about each, so figures are exact but for rounding.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from bench.simulation.populations import PAIRS, Numbers, improve
from bench.simulation.studies import Figures, plain_t, shows, span_of

BAND: Final = (0.94, 0.96)
ROUNDING: Final = 1e-12
FEW: Final = (6, 7, 8)
Sums = tuple[int, int]
"""The sum of differences, counted in steps of a trial, and the sum of their squares."""


def rates_out_of_reach(tasks: int, steps: int = 2_000) -> float:
    """Of true rates from 0 to 1, the share at which no interval has a coverage within the band.

    Tasks are solved or not, so there are `tasks` + 1 outcomes. Whatever the interval, those that hold a rate
    are outcomes in a row; at these rates no row of outcomes has such a chance.
    """
    rates = (np.arange(steps) + 0.5) / steps
    missed = 0
    for rate in rates:
        ends = np.concatenate([[0.0], special.bdtr(np.arange(tasks + 1), tasks, rate)])
        rows = ends[None, 1:] - ends[:-1, None]
        missed += not ((rows >= BAND[0]) & (rows <= BAND[1])).any()
    return missed / steps


def rules_within(tasks: int, flips: Sequence[float], low: float, high: float) -> tuple[int, int]:
    """How many rules there are for so many tasks of one trial, and how many alarm between `low` and `high`.

    A rule is any set of outcomes (so many tasks up, so many down) at which it tells of a difference; one that
    treats both variants alike. It has to keep the bounds for every share of tasks that `flips` at random.
    """
    outcomes = [(up, down) for up in range(tasks + 1) for down in range(min(up, tasks - up + 1))]
    chosen = (np.arange(2 ** len(outcomes))[:, None] >> np.arange(len(outcomes))) & 1
    kept = np.ones(len(chosen), dtype=bool)
    for share in flips:
        alarms = chosen @ np.array([2 * _flip_chance(tasks, *each, share) for each in outcomes])
        kept &= (alarms >= low) & (alarms <= high)
    return len(chosen), int(kept.sum())


def worst_flips(tasks: int) -> tuple[float, float]:
    """The most false alarms where some tasks flip at random and have one trial, and the share that flips."""
    outcomes = [(up, down) for up in range(tasks + 1) for down in range(min(up, tasks - up + 1))]
    shown = [
        each for each in outcomes if shows([1] * each[0] + [-1] * each[1] + [0] * (tasks - sum(each)), 1)
    ]
    shares = np.arange(1, 101) / 100
    alarms = [2 * math.fsum(_flip_chance(tasks, *each, share) for each in shown) for share in shares]
    worst = int(np.argmax(alarms))
    return alarms[worst], float(shares[worst])


def least_held(tasks: int, share: float) -> tuple[float, float]:
    """The least coverage of a difference where a share of the tasks flips, and how many of those go up.

    Each task has one trial; from as many up as down to nearly all up, in steps of a hundredth.
    """
    spans = {}
    for up in range(tasks + 1):
        for down in range(tasks - up + 1):
            found = span_of([1] * up + [-1] * down + [0] * (tasks - up - down), 1)
            spans[up, down] = (found.low, found.high)
    worst = (1.0, 0.5)
    for rising in np.arange(50, 100) / 100:
        truth = share * (2 * rising - 1)
        held = math.fsum(
            _moved(tasks, *moved, share * rising, share * (1 - rising))
            for moved, (low, high) in spans.items()
            if low - ROUNDING <= truth <= high + ROUNDING
        )
        worst = min(worst, (held, float(rising)))
    return worst


def _moved(tasks: int, up: int, down: int, rising: float, falling: float) -> float:
    ways = math.comb(tasks, up) * math.comb(tasks - up, down)
    return float(ways * rising**up * falling**down * (1 - rising - falling) ** (tasks - up - down))


def _flip_chance(tasks: int, up: int, down: int, share: float) -> float:
    return _moved(tasks, up, down, share / 2, share / 2)


def count_pairs(tasks: int, trials: int) -> Figures:
    """False alarms, ours and plain t's, and the power lost: the worst of the populations that are drawn."""
    outcomes = _outcomes(tasks, trials)
    ours = [sums for sums, row in outcomes.items() if shows(row, trials)]
    plain = [sums for sums, row in outcomes.items() if plain_t([each / trials for each in row]) < 0.05]
    alarms, alarms_of_t, lost = [], [], []
    for kind in PAIRS:
        null, better = (_sum_chances(tasks, _steps(kind, trials, is_better=each)) for each in (False, True))
        alarms.append(math.fsum(null[sums] for sums in ours))
        alarms_of_t.append(math.fsum(null[sums] for sums in plain))
        lost.append(math.fsum(better[sums] for sums in plain) - math.fsum(better[sums] for sums in ours))
    return {"shown": max(alarms), "t": max(alarms_of_t), "lost": max(lost)}


def count_t(tasks: int, trials: int) -> float:
    """False alarms of plain t, which from ten tasks on are ours: the worst of the populations."""
    far = tasks * trials
    totals, squares = np.arange(-far, far + 1)[:, None] / trials, np.arange(far * trials + 1)[None, :]
    spread = np.maximum(squares / trials**2 - totals**2 / tasks, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * special.stdtr(tasks - 1, -np.abs(totals / tasks) / np.sqrt(spread / (tasks * (tasks - 1))))
    # Where all differences are equal: none at all, or a sweep.
    shown = np.where(spread < ROUNDING, totals != 0.0, p < 0.05)
    return max(
        float(np.roll(_sum_chances(tasks, _steps(kind, trials, is_better=False)), far, axis=0)[shown].sum())
        for kind in PAIRS
    )


def _outcomes(tasks: int, trials: int) -> dict[Sums, tuple[int, ...]]:
    """Every pair of sums that there can be, with differences of tasks that have it."""
    found: dict[Sums, tuple[int, ...]] = {(0, 0): ()}
    for _ in range(tasks):
        found = {
            (total + step, squares + step * step): (*row, step)
            for (total, squares), row in found.items()
            for step in range(-trials, trials + 1)
        }
    return found


def _sum_chances(tasks: int, steps: Numbers) -> Numbers:
    """The chance of each pair of sums; negative totals are counted from the end."""
    trials = len(steps) // 2
    single = np.zeros((2 * tasks * trials + 1, tasks * trials * trials + 1))
    for number, chance in enumerate(steps):
        single[number - trials, (number - trials) ** 2] = chance
    return np.fft.irfft2(np.fft.rfft2(single) ** tasks, s=single.shape)


def _steps(kind: str, trials: int, *, is_better: bool) -> Numbers:
    """The chance of each difference of a task, from -trials to trials."""
    found, counts = np.zeros(2 * trials + 1), np.arange(trials + 1)
    ways = special.binom(trials, counts)
    for weight, before, after in _mixture(kind):
        left, right = (
            ways * rate**counts * (1 - rate) ** (trials - counts)
            for rate in (before, float(improve(np.array(after))) if is_better else after)
        )
        found += weight * np.convolve(right, left[::-1])
    return found


def _mixture(kind: str) -> Iterator[tuple[float, float, float]]:
    """A population as weights and true rates of both variants; what is continuous by Gauss' rule."""
    match kind:
        case "alike 0.5":
            yield 1.0, 0.5, 0.5
        case "alike 0.9":
            yield 1.0, 0.9, 0.9
        case "u-shaped":
            yield from ((weight, rate, rate) for rate, weight in _beta(0.5, 0.5))
        case "easy":
            yield from ((weight, rate, rate) for rate, weight in _beta(9.0, 1.0))
        case "unrelated":
            yield from ((v * w, x, y) for x, v in _beta(1.0, 1.0) for y, w in _beta(1.0, 1.0))
        case "flips":
            yield from ((0.1, 0.0, 1.0), (0.1, 1.0, 0.0), (0.48, 1.0, 1.0), (0.32, 0.0, 0.0))
        case _:
            yield from ((0.8, 0.5, 0.6), (0.2, 0.5, 0.1))


def _beta(one: float, other: float) -> list[tuple[float, float]]:
    places, weights = special.roots_jacobi(12, other - 1, one - 1)
    return list(zip(((places + 1) / 2).tolist(), (weights / weights.sum()).tolist(), strict=True))
