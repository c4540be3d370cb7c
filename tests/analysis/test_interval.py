import random

import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from labrunner.analysis.interval import Interval, TaskMean, mean_interval

MEANS = (0.0, 0.2, 0.4, 0.4, 0.6, 1.0, 0.8)


def tasks(means: tuple[float, ...], *, graded: int = 5) -> list[TaskMean]:
    return [TaskMean(mean=mean, graded=graded) for mean in means]


def known(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_t_over_tasks_agrees_with_the_one_sample_t_test(level: float) -> None:
    found = known(mean_interval(tasks(MEANS), is_binary=False, level=level))
    expected = stats.ttest_1samp(MEANS, 0.0).confidence_interval(level)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert found.standard_error == pytest.approx(stats.sem(MEANS), rel=1e-12)
    assert (found.method, found.tasks, found.units, found.level) == ("t over tasks", 7, 7, level)


def test_t_over_tasks_for_two_tasks_is_the_textbook_figure() -> None:
    found = known(mean_interval(tasks((0.4, 0.6)), is_binary=False))
    assert (found.low, found.high) == pytest.approx((0.5 - 12.7062 * 0.1, 0.5 + 12.7062 * 0.1), abs=1e-5)


@pytest.mark.parametrize(("passes", "n"), [(0, 20), (1, 2), (7, 10), (19, 20), (20, 20), (45, 50)])
def test_one_replication_of_0_or_1_gives_wilsons_interval(passes: int, n: int) -> None:
    means = (1.0,) * passes + (0.0,) * (n - passes)
    found = known(mean_interval(tasks(means, graded=1), is_binary=True))
    expected = stats.binomtest(passes, n).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (found.method, found.standard_error) == ("Wilson over tasks", None)


def test_scores_between_0_and_1_never_give_wilsons_interval() -> None:
    found = known(mean_interval(tasks(MEANS, graded=1), is_binary=False))
    assert found.method == "t over tasks"


def test_more_than_one_replication_never_gives_wilsons_interval() -> None:
    mixed = [TaskMean(mean=0.5, graded=2), TaskMean(mean=1.0, graded=1), TaskMean(mean=0.0, graded=1)]
    assert known(mean_interval(mixed, is_binary=True)).method == "t over tasks"


def test_groups_of_equal_size_agree_with_a_t_test_over_group_means() -> None:
    chance = random.Random(7)
    grouped = {f"g{number}": [chance.random() for _ in range(4)] for number in range(6)}
    flat = [TaskMean(mean=mean, graded=3, group=name) for name, means in grouped.items() for mean in means]
    found = known(mean_interval(flat, is_binary=False))
    expected = stats.ttest_1samp([sum(means) / 4 for means in grouped.values()], 0.0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.method, found.tasks, found.units) == ("t over groups", 24, 6)


def test_groups_of_unequal_size_agree_with_the_closed_form() -> None:
    flat = [
        TaskMean(mean=1.0, graded=3, group="x"),
        TaskMean(mean=0.8, graded=3, group="x"),
        TaskMean(mean=0.6, graded=3, group="x"),
        TaskMean(mean=0.0, graded=3, group="y"),
        TaskMean(mean=0.1, graded=3),
    ]
    # mean 0.5; sums of deviations: x 0.9, y -0.5, the lone task -0.4
    error = (3 / 2 * (0.81 + 0.25 + 0.16)) ** 0.5 / 5
    found = known(mean_interval(flat, is_binary=False))
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    assert found.high - 0.5 == pytest.approx(error * stats.t.ppf(0.975, 2), rel=1e-12)


def test_alike_tasks_in_groups_widen_the_interval() -> None:
    means = (0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.5, 0.5, 0.5)
    alone = known(mean_interval(tasks(means), is_binary=False))
    grouped = [TaskMean(mean=mean, graded=5, group=str(mean)) for mean in means]
    clustered = known(mean_interval(grouped, is_binary=False))
    assert clustered.high - clustered.low > 2 * (alone.high - alone.low)


def test_fewer_than_two_units_have_no_interval() -> None:
    assert mean_interval([], is_binary=True) is None
    assert mean_interval(tasks((1.0,), graded=1), is_binary=True) is None
    assert mean_interval(tasks((0.5,)), is_binary=False) is None
    same_group = [TaskMean(mean=mean, graded=3, group="only") for mean in MEANS]
    assert mean_interval(same_group, is_binary=False) is None


def test_all_tasks_solved_is_not_an_interval_of_no_width() -> None:
    found = known(mean_interval(tasks((1.0,) * 12), is_binary=True))
    expected = stats.binomtest(12, 12).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, 1.0), abs=1e-12)
    assert found.method == "Wilson over tasks"


def test_equal_means_away_from_the_edge_have_no_interval() -> None:
    assert mean_interval(tasks((0.5,) * 12), is_binary=True) is None
    assert mean_interval(tasks((1.0,) * 12), is_binary=False) is None


def test_an_interval_of_a_rate_ends_where_rates_end_and_others_do_not() -> None:
    means = (1.0, 1.0, 0.6)
    rate = known(mean_interval(tasks(means), is_binary=True))
    score = known(mean_interval(tasks(means), is_binary=False))
    assert (rate.low, rate.high) == (score.low, 1.0)
    assert score.high > 1.0
