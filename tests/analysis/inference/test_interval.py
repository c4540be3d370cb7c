import random
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from labrunner.analysis.inference.clusters import bell_mccaffrey
from labrunner.analysis.inference.interval import Interval, TaskMean, mean_interval

MEANS = (0.0, 0.2, 0.4, 0.4, 0.6, 1.0, 0.8)


def tasks(means: tuple[float, ...], *, graded: int = 5) -> list[TaskMean]:
    return [TaskMean(mean=mean, graded=graded) for mean in means]


def known(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_t_over_tasks_agrees_with_the_one_sample_t_test(level: float) -> None:
    found = known(mean_interval(tasks(MEANS), is_rate=False, level=level))
    expected = stats.ttest_1samp(MEANS, 0.0).confidence_interval(level)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert found.standard_error == pytest.approx(stats.sem(MEANS), rel=1e-12)
    assert (found.method, found.tasks, found.units, found.level) == ("t over tasks", 7, 7, level)


def test_t_over_tasks_for_two_tasks_is_the_textbook_figure() -> None:
    found = known(mean_interval(tasks((0.4, 0.6)), is_rate=False))
    assert (found.low, found.high) == pytest.approx((0.5 - 12.7062 * 0.1, 0.5 + 12.7062 * 0.1), abs=1e-5)


@pytest.mark.parametrize(("passes", "n"), [(0, 20), (1, 2), (7, 10), (19, 20), (20, 20), (45, 50)])
def test_one_replication_of_0_or_1_gives_wilsons_interval_with_a_t_quantile(passes: int, n: int) -> None:
    means = (1.0,) * passes + (0.0,) * (n - passes)
    found = known(mean_interval(tasks(means, graded=1), is_rate=True))
    p, size, t = passes / n, known(found).effective_size or 0.0, stats.t.ppf(0.975, n - 1)
    assert size == pytest.approx(n, rel=0.5)
    for end, away in ((found.low, p), (1 - found.high, 1 - p)):
        # Each solves the score equation, unless all of the binomial's error on this side reaches further.
        exact = stats.beta.ppf(0.05, size * away, size * (1 - away) + 1) if away else 0.0
        score = (away - end) ** 2 - t * t * end * (1 - end) / size
        assert score == pytest.approx(0, abs=1e-9) or (end == pytest.approx(exact) and score > 0)
    assert found.method == "Wilson over tasks"


@pytest.mark.parametrize("n", [10, 20, 50, 100])
@pytest.mark.parametrize("rate", [0.001, 0.005, 0.01, 0.013, 0.02, 0.04, 0.1, 0.35, 0.5])
def test_no_rate_of_single_trials_is_missed_more_often_than_seven_times_in_a_hundred(
    n: int, rate: float
) -> None:
    ends = [
        known(mean_interval(tasks((1.0,) * k + (0.0,) * (n - k), graded=1), is_rate=True))
        for k in range(n + 1)
    ]
    chances = stats.binom.pmf(np.arange(n + 1), n, rate)
    held = sum(chance for chance, end in zip(chances, ends, strict=True) if end.low <= rate <= end.high)
    assert held > 0.93


def test_the_interval_is_close_to_the_binomials_for_single_trials() -> None:
    found = known(mean_interval(tasks((1.0,) * 300 + (0.0,) * 100, graded=1), is_rate=True))
    expected = stats.binomtest(300, 400).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-3)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 20, 50, 200])
@pytest.mark.parametrize("graded", [1, 2, 5, 50])
def test_an_interval_never_shrinks_because_a_trial_failed(n: int, graded: int) -> None:
    perfect = known(mean_interval(tasks((1.0,) * n, graded=graded), is_rate=True))
    for count in range(1, min(n, 40) + 1):
        means = (1 - 1 / graded,) * count + (1.0,) * (n - count)
        found = known(mean_interval(tasks(means, graded=graded), is_rate=True))
        assert found.low <= perfect.low + 1e-12
        assert found.high - found.low >= perfect.high - perfect.low - 0.01 or count > 1


def test_the_known_case_of_a_failure_that_made_the_interval_narrower() -> None:
    perfect = known(mean_interval(tasks((1.0,) * 20), is_rate=True))
    failed = known(mean_interval(tasks((0.8,) + (1.0,) * 19), is_rate=True))
    assert failed.low < perfect.low
    assert failed.high - failed.low > perfect.high - perfect.low - 1e-3


def test_scores_between_0_and_1_never_give_wilsons_interval() -> None:
    found = known(mean_interval(tasks(MEANS, graded=1), is_rate=False))
    assert found.method == "t over tasks"


def test_rates_of_many_replications_have_the_effective_size_of_their_spread() -> None:
    means = (0.2, 0.4, 0.5, 0.5, 0.6, 0.8)
    found = known(mean_interval(tasks(means, graded=10), is_rate=True))
    assert found.effective_size == pytest.approx(0.25 / stats.sem(means) ** 2)


def test_groups_of_equal_size_agree_with_a_t_test_over_group_means() -> None:
    chance = random.Random(7)
    grouped = {f"g{number}": [chance.random() for _ in range(4)] for number in range(6)}
    flat = [TaskMean(mean=mean, graded=3, group=name) for name, means in grouped.items() for mean in means]
    found = known(mean_interval(flat, is_rate=False))
    expected = stats.ttest_1samp([sum(means) / 4 for means in grouped.values()], 0.0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.method, found.tasks, found.units) == ("t over groups", 24, 6)


def test_groups_of_unequal_size_agree_with_cr2_worked_out_with_matrices() -> None:
    y = np.array([1.0, 0.8, 0.6, 0.0, 0.1])
    groups = ["x", "x", "x", "y", None]
    flat = [TaskMean(mean=mean, graded=3, group=group) for mean, group in zip(y, groups, strict=True)]
    found = known(mean_interval(flat, is_rate=False))
    error, freedom = cr2(y, [0, 0, 0, 1, 2], 0.0)
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    between = bell_mccaffrey([1, 3, 1], 0.0)
    assert between == pytest.approx(freedom, rel=1e-12)
    assert bell_mccaffrey([1, 3, 1], 0.4) == pytest.approx(cr2(y, [0, 0, 0, 1, 2], 0.4)[1], rel=1e-12)
    assert found.high - y.mean() == pytest.approx(error * stats.t.ppf(0.975, found.freedom), rel=1e-9)


def cr2(y: "np.ndarray[Any, Any]", codes: list[int], likeness: float) -> tuple[float, float]:
    """Bell and McCaffrey's error and degrees of freedom for a mean, as their paper defines them."""
    n, names = len(y), np.array(codes)
    x = np.ones((n, 1))
    hat = x @ np.linalg.inv(x.T @ x) @ x.T
    residuals = (np.eye(n) - hat) @ y
    total, vectors = 0.0, []
    for code in sorted(set(codes)):
        own = names == code
        block = np.eye(own.sum()) - hat[np.ix_(own, own)]
        values, basis = np.linalg.eigh(block)
        root = basis @ np.diag(values**-0.5) @ basis.T
        total += (x[own].T @ root @ residuals[own]).item() ** 2
        vectors.append((np.eye(n) - hat)[:, own] @ root @ x[own].ravel() / n)
    g = np.array(vectors).T
    omega = (1 - likeness) * np.eye(n) + likeness * (names[:, None] == names[None, :])
    spread = g.T @ omega @ g
    return total**0.5 / n, np.trace(spread) ** 2 / (spread * spread).sum()


def test_alike_tasks_in_groups_widen_the_interval() -> None:
    means = (0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.5, 0.5, 0.5)
    alone = known(mean_interval(tasks(means), is_rate=False))
    grouped = [TaskMean(mean=mean, graded=5, group=str(mean)) for mean in means]
    clustered = known(mean_interval(grouped, is_rate=False))
    assert clustered.high - clustered.low > 2 * (alone.high - alone.low)


def test_one_large_group_whose_tasks_are_not_alike_does_not_blur_the_mean() -> None:
    sizes = {"large": 200, **{f"g{number}": 10 for number in range(10)}}
    flat = [
        TaskMean(mean=float(number % 10 != 0), graded=1, group=name)
        for name, size in sizes.items()
        for number in range(size)
    ]
    found = known(mean_interval(flat, is_rate=True))
    assert found.low < 0.9 < found.high
    assert found.high - found.low < 0.2
    # Where each group solves all or nothing, 300 tasks are no more than 11 groups, one of them large.
    alike = [TaskMean(mean=float(task.group != "g3"), graded=1, group=task.group) for task in flat]
    blurred = known(mean_interval(alike, is_rate=True))
    assert blurred.high - blurred.low > 0.6


def test_fewer_than_two_units_have_no_interval() -> None:
    assert mean_interval([], is_rate=True) is None
    assert mean_interval(tasks((1.0,), graded=1), is_rate=True) is None
    assert mean_interval(tasks((0.5,)), is_rate=False) is None
    same_group = [TaskMean(mean=mean, graded=3, group="only") for mean in MEANS]
    assert mean_interval(same_group, is_rate=False) is None


def test_all_tasks_solved_is_not_an_interval_of_no_width() -> None:
    found = known(mean_interval(tasks((1.0,) * 12), is_rate=True))
    t = stats.t.ppf(0.975, 11)
    assert (found.low, found.high) == pytest.approx((12 / (12 + t * t), 1.0), abs=1e-12)
    assert found.method == "Wilson over tasks"


def test_equal_rates_away_from_the_edge_are_bounded_by_their_trials_and_other_scores_by_nothing() -> None:
    found = known(mean_interval(tasks((0.5,) * 12, graded=4), is_rate=True))
    assert found.effective_size == 48
    assert mean_interval(tasks((1.0,) * 12), is_rate=False) is None


def test_an_interval_ends_where_its_declared_scale_ends_and_else_nowhere() -> None:
    means = (1.0, 1.0, 0.6)
    bounded = known(mean_interval(tasks(means), is_rate=False, bounds=(0.0, 1.0)))
    free = known(mean_interval(tasks(means), is_rate=False))
    assert (bounded.low, bounded.high) == (free.low, 1.0)
    assert free.high > 1.0


def test_scores_too_large_to_be_squared_have_no_interval() -> None:
    assert mean_interval(tasks((1e200, -1e200, 5.0)), is_rate=False) is None
