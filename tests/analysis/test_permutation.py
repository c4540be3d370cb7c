import random
from itertools import product

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types
from statsmodels.stats.contingency_tables import (  # type: ignore[import-untyped] # no types
    mcnemar as independent_mcnemar,
)
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped] # no types

from labrunner.analysis.permutation import adjust_holm, mcnemar, sign_flip

# Differences between cross- and self-fertilised plants (Zea mays), in eighths of an inch: Darwin 1876,
# the data of Fisher's permutation test in The Design of Experiments, section 21.
DARWIN = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)


def test_fishers_own_example_comes_out() -> None:
    found = sign_flip(DARWIN)
    assert found.value == pytest.approx(1726 / 2**15)
    assert found.method == "exact sign-flip over tasks"


def test_every_sign_is_tried_up_to_20_units() -> None:
    differences = [0.5, -0.25, 0.75, 1.0, 0.0, -0.1, 0.3]
    signs = product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(each, differences, strict=True))) for each in signs]
    expected = sum(value >= abs(sum(differences)) - 1e-12 for value in sums) / len(sums)
    assert sign_flip(differences).value == pytest.approx(expected)


def test_thirds_that_do_not_add_up_in_binary_are_still_ties() -> None:
    third = 1 / 3
    assert sign_flip([third, third, third, -1.0 + 1e-17]).value == 1.0


def test_it_agrees_with_scipys_permutation_test() -> None:
    chance = np.random.default_rng(8)
    differences = chance.normal(0.2, 1.0, size=12)
    expected = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip(differences.tolist()).value == pytest.approx(expected.pvalue, rel=1e-9)


def test_more_units_are_drawn_with_a_seed_and_come_close_to_the_truth() -> None:
    chance = random.Random(4)
    differences = [chance.gauss(0.25, 1.0) for _ in range(60)]
    found = sign_flip(differences)
    assert (found.draws, found.seed) == (10_000, found.seed)
    assert f"10000 draws, seed {found.seed}" in found.method
    truth = 2 * stats.norm.sf(abs(sum(differences)) / sum(d * d for d in differences) ** 0.5)
    assert found.value == pytest.approx(truth, abs=0.015)
    assert sign_flip(differences) == found


def test_equal_differences_are_drawn_together_and_agree_with_the_binomial() -> None:
    differences = [1.0] * 40 + [-1.0] * 22 + [0.0] * 500
    found = sign_flip(differences)
    assert found.differing == 62
    assert found.value == pytest.approx(stats.binomtest(40, 62).pvalue, abs=0.01)


def test_no_difference_anywhere_has_p_1() -> None:
    assert sign_flip([0.0, 0.0, 0.0]).value == 1.0


def test_the_test_keeps_its_size_under_no_difference() -> None:
    chance = np.random.default_rng(11)
    p_values = [
        sign_flip(row.tolist()).value for row in chance.choice([-0.4, -0.2, 0.2, 0.4], size=(800, 14))
    ]
    assert np.mean(np.array(p_values) < 0.05) <= 0.065


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (5, 5), (2, 11), (9, 1), (121, 59)])
def test_mcnemar_agrees_with_statsmodels(wins: int, losses: int) -> None:
    expected = independent_mcnemar([[10, wins], [losses, 10]], exact=True).pvalue if wins + losses else 1.0
    assert mcnemar(wins, losses).value == pytest.approx(expected, rel=1e-9)


def test_mcnemar_gives_the_published_figure() -> None:
    # Agresti, Categorical Data Analysis, approval ratings of a prime minister: 86 and 150 changed their mind.
    assert mcnemar(86, 150).value == pytest.approx(3.7e-05, rel=0.05)


def test_mcnemar_is_the_sign_flip_of_ones() -> None:
    assert mcnemar(9, 3).value == pytest.approx(sign_flip([1.0] * 9 + [-1.0] * 3).value)


@pytest.mark.parametrize(
    "p_values", [(0.01,), (0.01, 0.04, 0.03, 0.005), (0.9, 0.2, 0.2), (0.03, 0.03, 0.03)]
)
def test_holm_agrees_with_statsmodels(p_values: tuple[float, ...]) -> None:
    expected = multipletests(p_values, method="holm")[1]
    assert adjust_holm(p_values) == pytest.approx(tuple(expected))


def test_holm_of_nothing_is_nothing() -> None:
    assert adjust_holm(()) == ()
