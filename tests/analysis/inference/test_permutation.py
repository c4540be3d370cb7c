import math
import random
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped] # no types

from labrunner.analysis.inference.permutation import (
    Contrast,
    adjust_holm,
    holm_shares,
    permute_trials,
    sign_flip,
)

# Differences between cross- and self-fertilised plants (Zea mays), in eighths of an inch: Darwin 1876,
# the data of Fisher's permutation test in The Design of Experiments, section 21.
DARWIN = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)


def pair(baseline: list[float], other: list[float]) -> Contrast:
    return Contrast(baseline=baseline, other=other)


def enumerate_p(tasks: list[Contrast]) -> float:
    """The mid-p-value by going through every way to deal out every task's trials."""
    ways = []
    for task in tasks:
        pooled, size = [*task.baseline, *task.other], len(task.other)
        chosen = [set(each) for each in combinations(range(len(pooled)), size)]
        ways.append(
            [
                np.mean([pooled[i] for i in c])
                - np.mean([pooled[i] for i in range(len(pooled)) if i not in c])
                for c in chosen
            ]
        )
    sums = np.abs([math.fsum(each) for each in product(*ways)])
    observed = abs(math.fsum(task.difference for task in tasks))
    return float((sums > observed + 1e-9).mean() + (np.abs(sums - observed) <= 1e-9).mean() / 2)


def test_fishers_own_example_comes_out() -> None:
    found = sign_flip(DARWIN)
    # Fisher counted 1726 of 32768 at least as extreme; 2 * 27 of them are exactly as extreme.
    every = [
        abs(sum(s * d for s, d in zip(each, DARWIN, strict=True))) for each in product((1, -1), repeat=15)
    ]
    even = sum(value == abs(sum(DARWIN)) for value in every)
    assert sum(value >= abs(sum(DARWIN)) for value in every) == 1726
    assert found.value == pytest.approx((1726 - even / 2) / 2**15)
    assert found.method == "sign-flip over tasks, all of them"


def test_thirds_that_do_not_add_up_in_binary_are_still_ties() -> None:
    third = 1 / 3
    # The sum is zero but for rounding: everything is as extreme or more.
    sums = [abs(a + b + c - 3 * d) for a, b, c, d in product((1, -1), repeat=4)]
    expected = sum(value > 0 for value in sums) / 16 + sum(value == 0 for value in sums) / 32
    assert sign_flip([third, third, third, -1.0 + 1e-17]).value == pytest.approx(expected)
    assert sign_flip([0.1 + 0.2, -0.3]).value == sign_flip([1.0, -1.0]).value


def test_tiny_differences_are_as_significant_as_large_ones_of_the_same_shape() -> None:
    chance = np.random.default_rng(5)
    large = chance.normal(0.25, 1.0, size=40)
    assert sign_flip((large * 1e-13).tolist()).value == pytest.approx(
        sign_flip(large.tolist()).value, abs=1e-3
    )


def test_more_units_are_drawn_with_a_seed_and_come_close_to_the_truth() -> None:
    chance = random.Random(4)
    differences = [chance.gauss(0.25, 1.0) for _ in range(60)]
    found = sign_flip(differences)
    assert (found.draws, found.seed) == (10_000, found.seed)
    assert f"10000 draws, seed {found.seed}" in found.method
    truth = 2 * stats.norm.sf(abs(sum(differences)) / sum(d * d for d in differences) ** 0.5)
    assert found.value == pytest.approx(truth, abs=0.015)
    assert sign_flip(differences) == found


def test_very_many_units_are_as_good_as_normal() -> None:
    chance = np.random.default_rng(3)
    differences = chance.normal(0.03, 1.0, size=5_000)
    found = sign_flip(differences.tolist())
    assert found.method == "sign-flip over tasks, normal"
    assert found.value == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue, abs=0.003)


def test_no_difference_anywhere_has_p_1() -> None:
    assert sign_flip([0.0, 0.0, 0.0]).value == 1.0
    assert permute_trials([pair([1.0, 1.0], [1.0, 1.0])], is_rate=True).value == 1.0


@pytest.mark.parametrize(
    "tasks",
    [
        [pair([1, 0, 1], [1, 1, 1]), pair([0, 0, 0], [1, 0, 1]), pair([1, 1, 1], [1, 1, 0])],
        [pair([0], [1]), pair([0], [1]), pair([0], [1]), pair([1], [0]), pair([1], [1])],
        [pair([0, 0], [1, 1, 1]), pair([0, 1], [1, 1, 1])],
    ],
)
def test_rates_agree_with_going_through_every_permutation(tasks: list[Contrast]) -> None:
    found = permute_trials(tasks, is_rate=True)
    assert found.value == pytest.approx(enumerate_p(tasks), abs=1e-9)
    assert found.method == "trials permuted within tasks, all of them"


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2)])
def test_other_scores_are_drawn_and_come_close_to_going_through_every_permutation(
    sizes: tuple[int, int],
) -> None:
    chance = np.random.default_rng(7)
    tasks = [
        pair(chance.normal(0, 1, sizes[0]).tolist(), chance.normal(0.8, 1, sizes[1]).tolist())
        for _ in range(4)
    ]
    found = permute_trials(tasks, is_rate=False)
    assert found.value == pytest.approx(enumerate_p(tasks), abs=0.02)
    assert found.draws == 10_000


def test_rates_with_ragged_replications_are_drawn() -> None:
    tasks = [pair([0, 0], [1, 1, 1]), pair([0, 1, 0], [1, 1]), pair([0], [1])]
    found = permute_trials(tasks, is_rate=True)
    assert found.value == pytest.approx(enumerate_p(tasks), abs=0.02)


def test_many_trials_are_as_good_as_normal_and_agree_with_counting_out() -> None:
    chance = np.random.default_rng(9)
    tasks = [
        pair(
            chance.integers(0, 2, 5).astype(float).tolist(), (chance.random(5) < 0.55).astype(float).tolist()
        )
        for _ in range(390)
    ]
    counted = permute_trials(tasks, is_rate=True)
    normal = permute_trials(tasks, is_rate=False)
    assert (counted.method[-11:], normal.method[-6:]) == ("all of them", "normal")
    assert normal.value == pytest.approx(counted.value, abs=0.003)


def test_five_of_five_flipped_tasks_with_five_replications_can_not_be_luck_on_these_tasks() -> None:
    found = permute_trials([pair([0.0] * 5, [1.0] * 5)] * 5, is_rate=True)
    assert found.value < 1e-9


def test_its_deviation_is_that_of_the_permuted_difference() -> None:
    tasks = [pair([0.0, 1.0], [1.0, 1.0]), pair([0.0, 0.0], [1.0, 1.0])]
    chance = np.random.default_rng(2)
    drawn = [
        np.mean([(s := chance.permutation([*t.baseline, *t.other]))[2:].mean() - s[:2].mean() for t in tasks])
        for _ in range(20_000)
    ]
    assert permute_trials(tasks, is_rate=True).deviation == pytest.approx(np.std(drawn), rel=0.02)


@pytest.mark.parametrize(
    "p_values", [(0.01,), (0.01, 0.04, 0.03, 0.005), (0.9, 0.2, 0.2), (0.03, 0.03, 0.03)]
)
def test_holm_agrees_with_statsmodels(p_values: tuple[float, ...]) -> None:
    expected = multipletests(p_values, method="holm")[1]
    assert adjust_holm(p_values) == pytest.approx(tuple(expected))


def test_holm_of_nothing_is_nothing() -> None:
    assert adjust_holm(()) == ()


def test_an_interval_at_its_share_of_alpha_leaves_out_zero_exactly_when_holm_rejects() -> None:
    chance = np.random.default_rng(1)
    for _ in range(500):
        p_values = tuple((chance.random(chance.integers(1, 6)) ** 3).tolist())
        shares = holm_shares(p_values, 0.05)
        for p, adjusted, share in zip(p_values, adjust_holm(p_values), shares, strict=True):
            assert (p < 0.05 / share) == (adjusted < 0.05)
            assert 1 <= share <= len(p_values)


@pytest.mark.parametrize(
    ("truth", "least"),
    [
        ([9.0] * 5, 0.945),
        ([0.0] * 5, 0.945),
        ([0.0, 2.0, 2.5, 3.0, 9.0], 0.93),
        ([0.0, 9.0, 9.0, 9.0, 9.0], 0.90),
    ],
)
def test_intervals_of_a_family_hold_all_together(truth: list[float], least: float) -> None:
    """What Holm's steps show costs up to as much again: no rule has both its power and such intervals."""
    chance = np.random.default_rng(7)
    drawn = np.array(truth) + chance.standard_normal((3_000, len(truth)))
    p_values = 2 * stats.norm.sf(np.abs(drawn))
    shares = np.array([holm_shares(tuple(row), 0.05) for row in p_values.tolist()])
    half = stats.norm.isf(0.05 / shares / 2)
    held = (np.abs(drawn - np.array(truth)) <= half).all(axis=1).mean()
    assert held >= least
