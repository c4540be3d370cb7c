import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from labrunner.analysis.describing.price import price_success, rank


def test_a_solved_task_costs_all_that_was_spent_over_all_that_was_solved() -> None:
    found = price_success({"t0": (0.4, 2), "t1": (0.6, 0), "t2": (0.2, 1)}, {})
    assert found is not None
    assert found.cost_usd == pytest.approx(1.2)
    assert (found.solved, found.units) == (3, 3)
    assert found.value == pytest.approx(0.4)


def test_nothing_solved_has_no_price_and_nothing_told_is_not_free() -> None:
    found = price_success({"t0": (0.4, 0), "t1": (0.6, 0)}, {})
    assert found is not None
    assert (found.value, found.low, found.high) == (None, None, None)
    assert price_success({}, {}) is None


def test_fiellers_ends_are_where_cost_and_ratio_times_passes_can_not_be_told_apart() -> None:
    chance = np.random.default_rng(3)
    passes = chance.binomial(5, 0.6, size=30)
    costs = chance.gamma(2.0, 0.1, size=30) + 0.05 * passes
    found = price_success(
        {f"t{n}": (float(c), int(p)) for n, (c, p) in enumerate(zip(costs, passes, strict=True))}, {}
    )
    assert found is not None
    for end in (found.low, found.high):
        assert end is not None
        assert stats.ttest_1samp(costs - end * passes, 0.0).pvalue == pytest.approx(0.05, abs=1e-6)


def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    chance = np.random.default_rng(8)
    covered = 0
    for _ in range(1_000):
        rates = chance.beta(2, 2, size=25)
        passes = chance.binomial(3, rates)
        costs = chance.gamma(4.0, 0.05, size=25)
        found = price_success(
            {f"t{n}": (float(c), int(p)) for n, (c, p) in enumerate(zip(costs, passes, strict=True))}, {}
        )
        assert found is not None
        covered += found.low is not None and found.high is not None and found.low <= 0.2 / 1.5 <= found.high
    assert 0.93 <= covered / 1_000 <= 0.97


def test_so_little_solved_that_nothing_bounds_the_price_has_no_upper_end() -> None:
    found = price_success({f"t{n}": (0.1, int(n == 0)) for n in range(10)}, {})
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert found.high is None


def test_groups_are_units() -> None:
    spent = {f"t{n}": (0.1 + 0.01 * (n % 2), n % 2) for n in range(12)}
    alone, grouped = (
        price_success(spent, {}),
        price_success(spent, {f"t{n}": f"g{n // 4}" for n in range(12)}),
    )
    assert alone is not None
    assert grouped is not None
    assert (alone.units, grouped.units) == (12, 3)


def test_variants_that_others_make_superfluous_are_named() -> None:
    found = rank([("a", 0.5, 1.0), ("b", 0.6, 0.9), ("c", 0.9, 3.0), ("d", 0.6, 0.9)], is_lower_better=False)
    assert {each.variant_id: each.dominated_by for each in found} == {
        "a": ("b", "d"),
        "b": (),
        "c": (),
        "d": (),
    }
    slow = rank([("a", 9.0, 1.0), ("b", 5.0, 1.0)], is_lower_better=True)
    assert [each.dominated_by for each in slow] == [("b",), ()]
