"""Populations of tasks to draw runs from: how often each task is solved, by one variant or by two."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from labrunner.analysis.inference.permutation import Contrast

Numbers = np.ndarray[Any, np.dtype[np.float64]]
KINDS: Final = ("alike", "mild", "u-shaped", "always or never")
"""How tasks differ: not at all, Beta(5p, 5q), Beta(p, q), solved always or never."""
PAIRS: Final = ("alike 0.5", "alike 0.9", "u-shaped", "unrelated", "flips", "easy", "skewed")
SAME: Final = ("alike 0.5", "alike 0.9", "u-shaped", "easy")
"""Those in which both variants do alike on every single task."""
SCORED: Final = ("normal", "some noisy", "skewed", "thirds")
"""How measured scores scatter within tasks: alike, far more on some tasks, lognormally, in steps."""
LAYOUTS: Final[Mapping[str, tuple[int, ...]]] = {
    "10 groups of 5": (5,) * 10,
    "20 groups of 5": (5,) * 20,
    "6 groups of 4": (4,) * 6,
    "geometric, 1 to 32": (1, 2, 4, 8, 16, 32, 1, 2, 4, 8),
    "one of 20, nine singles": (20, *(1,) * 9),
    "like SWE-bench Verified": (231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1),
    "four of 10, twenty singles": (*(10,) * 4, *(1,) * 20),
}


def draw_scores(
    kind: str, tasks: int, trials: int, chance: np.random.Generator
) -> tuple[list[Contrast], float]:
    """Measured scores of two variants whose effect differs from task to task, and its true mean."""
    middle = chance.uniform(0.2, 0.8, tasks)
    match kind:
        case "normal":
            means, scale = (middle, middle + chance.normal(3.0, 1.0, tasks)), np.full(tasks, 0.1)
        case "some noisy":
            means, scale = (
                (middle, middle + chance.normal(0.3, 0.2, tasks)),
                np.exp(chance.normal(-2, 1, tasks)),
            )
        case "skewed":
            effect = chance.normal(0.3, 0.1, tasks)
            means, scale = (np.exp(middle), np.exp(middle + effect)), np.full(tasks, 0.6)
        case _:  # thirds: parts that are solved or not
            means, scale = (middle, np.clip(middle + chance.normal(0.2, 0.1, tasks), 0, 1)), np.zeros(tasks)
    sides = [_scatter(kind, mean, scale, trials, chance) for mean in means]
    contrasts = [
        Contrast(baseline=a, other=b) for a, b in zip(sides[0].tolist(), sides[1].tolist(), strict=True)
    ]
    return contrasts, float((means[1] - means[0]).mean())


def _scatter(kind: str, mean: Numbers, scale: Numbers, trials: int, chance: np.random.Generator) -> Numbers:
    size = (len(mean), trials)
    match kind:
        case "skewed":  # lognormal around its mean
            return mean[:, None] * np.exp(chance.normal(-0.18, 0.6, size))
        case "thirds":
            return chance.binomial(3, mean[:, None], size) / 3
        case _:
            return mean[:, None] + scale[:, None] * chance.normal(0, 1, size)


def draw_rates(kind: str, rate: float, size: tuple[int, int], chance: np.random.Generator) -> Numbers:
    """True rates of tasks, their mean being `rate`."""
    match kind:
        case "alike":
            return np.full(size, rate)
        case "mild":
            return chance.beta(5 * rate, 5 * (1 - rate), size)
        case "u-shaped":
            return chance.beta(rate, 1 - rate, size)
        case _:
            return (chance.random(size) < rate).astype(float)


def draw_pairs(kind: str, size: tuple[int, int], chance: np.random.Generator) -> tuple[Numbers, Numbers]:
    """True rates of two variants whose means are equal."""
    match kind:
        case "alike 0.5":
            before = after = np.full(size, 0.5)
        case "alike 0.9":
            before = after = np.full(size, 0.9)
        case "u-shaped":
            before = after = chance.beta(0.5, 0.5, size)
        case "unrelated":
            before, after = chance.random(size), chance.random(size)
        case "flips":  # a tenth of the tasks flips up, a tenth down, the others are always or never solved
            solved, flip = (chance.random(size) < 0.6).astype(float), chance.random(size)
            before = np.where(flip < 0.1, 0.0, np.where(flip < 0.2, 1.0, solved))
            after = np.where(flip < 0.1, 1.0, np.where(flip < 0.2, 0.0, solved))
        case "easy":
            before = after = chance.beta(9, 1, size)
        case _:  # four fifths of the tasks gain 0.1, the others lose 0.4
            before = np.full(size, 0.5)
            after = before + np.where(chance.random(size) < 0.8, 0.1, -0.4)
    return before, after


def improve(rates: Numbers) -> Numbers:
    """Half of what fails is solved."""
    return rates + (1 - rates) / 2


def draw_groups(
    likeness: float, rate: float, sizes: tuple[int, ...], runs: int, chance: np.random.Generator
) -> Numbers:
    """True rates of tasks that are alike within groups: groups' rates are beta with this correlation."""
    groups = (
        np.full((runs, len(sizes)), rate)
        if not likeness
        else chance.beta(rate * (1 / likeness - 1), (1 - rate) * (1 / likeness - 1), (runs, len(sizes)))
    )
    return np.repeat(groups, sizes, axis=1)


def draw_group_effects(
    effect: float, sizes: tuple[int, ...], runs: int, chance: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """True rates of two variants that groups favour differently, by up to `effect` each; means are equal."""
    shift = np.repeat(chance.uniform(-0.5, 0.5, (runs, len(sizes))), sizes, axis=1) * effect
    base = np.full(shift.shape, 0.5) if effect > 0.6 else chance.uniform(0.3, 0.7, shift.shape)
    return np.clip(base - shift, 0, 1), np.clip(base + shift, 0, 1)
