from itertools import combinations

import numpy as np
import pytest

from labrunner.analysis.describing.repeated import pass_all_k, pass_at_k, repeated_success
from labrunner.analysis.inference.interval import TaskMean, mean_interval
from labrunner.analysis.sums.tally import Cell

ALONE: dict[str, str | None] = {}


def cell(passed: int, graded: int) -> Cell:
    return Cell(graded=graded, passed=passed)


@pytest.mark.parametrize("graded", [1, 2, 3, 5, 7])
def test_the_estimators_agree_with_going_through_every_choice_of_k_trials(graded: int) -> None:
    for passed in range(graded + 1):
        trials = [True] * passed + [False] * (graded - passed)
        for k in range(1, graded + 1):
            choices = list(combinations(trials, k))
            assert pass_at_k(passed, graded, k) == pytest.approx(sum(map(any, choices)) / len(choices))
            assert pass_all_k(passed, graded, k) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_figures_are_averages_over_tasks_for_every_k_that_all_can_carry() -> None:
    found = repeated_success({"t0": cell(1, 3), "t1": cell(3, 4), "t2": cell(0, 3)}, ALONE)
    assert [one.k for one in found] == [1, 2, 3]
    assert found[1].any_passes.value == pytest.approx((2 / 3 + 1.0 + 0.0) / 3)
    assert found[1].all_pass.value == pytest.approx((0.0 + 0.5 + 0.0) / 3)
    assert (found[0].tasks, found[0].units) == (3, 3)


def test_the_mean_rate_is_not_put_into_a_power() -> None:
    found = repeated_success({"t0": cell(4, 4), "t1": cell(0, 4)}, ALONE)
    assert found[1].all_pass.value == 0.5  # not 0.25


def test_a_task_graded_once_leaves_nothing_to_say() -> None:
    assert repeated_success({"t0": cell(1, 3), "t1": cell(1, 1)}, ALONE) == ()
    assert repeated_success({}, ALONE) == ()


def test_many_replications_are_told_at_a_few_k_and_at_the_largest() -> None:
    found = repeated_success({"t0": cell(10, 60), "t1": cell(20, 70)}, ALONE)
    assert [one.k for one in found] == [*range(1, 11), 20, 50, 60]


def test_the_interval_is_that_of_a_mean_of_as_many_tries() -> None:
    chance = np.random.default_rng(5)
    passed = chance.binomial(4, chance.beta(0.7, 0.7, size=40))
    cells = {f"t{n}": cell(int(count), 4) for n, count in enumerate(passed)}
    (first, found, *_) = repeated_success(cells, ALONE)
    tasks = [TaskMean(mean=pass_all_k(int(count), 4, 2), graded=2.0) for count in passed]
    expected = mean_interval(tasks, is_rate=True)
    assert expected is not None
    assert (found.all_pass.low, found.all_pass.high) == (expected.low, expected.high)
    mean = mean_interval([TaskMean(mean=count / 4, graded=4) for count in passed.tolist()], is_rate=True)
    assert mean is not None
    assert (first.any_passes.low, first.any_passes.high) == (mean.low, mean.high)


def test_fewer_than_ten_tasks_carry_no_interval_of_more_than_one_try() -> None:
    found = repeated_success({f"t{n}": cell(n % 4, 4) for n in range(9)}, ALONE)
    assert found[0].any_passes.low is not None
    assert [(one.any_passes.low, one.all_pass.high) for one in found[1:]] == [(None, None)] * 3


def test_the_same_data_give_the_same_interval() -> None:
    cells = {f"t{n}": cell(n % 4, 4) for n in range(9)}
    assert repeated_success(cells, ALONE) == repeated_success(cells, ALONE)


def test_groups_are_units() -> None:
    cells = {f"t{n}": cell(4 if n < 6 else 0, 4) for n in range(12)}
    alone = repeated_success(cells, ALONE)[0].any_passes
    grouped = repeated_success(cells, {f"t{n}": f"g{n // 6}" for n in range(12)})[0]
    assert grouped.units == 2
    assert grouped.any_passes.low is not None
    assert alone.low is not None
    assert grouped.any_passes.low < alone.low


def test_one_group_has_no_interval() -> None:
    found = repeated_success({"t0": cell(1, 2), "t1": cell(2, 2)}, {"t0": "g", "t1": "g"})
    assert (found[0].any_passes.low, found[0].any_passes.high) == (None, None)
    assert found[0].any_passes.value == 0.75


def test_tasks_that_are_all_alike_have_an_interval_of_some_width() -> None:
    every = repeated_success({f"t{n}": Cell(graded=3, passed=3) for n in range(12)}, {})
    for one in every:
        assert one.all_pass.value == one.all_pass.high == 1.0
        assert one.all_pass.low is not None
        assert one.all_pass.low < 0.8
