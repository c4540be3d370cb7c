import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped] # no types

from labrunner.analysis.comparison import Comparison, compare_all, is_conclusion_safe_from_retries
from labrunner.analysis.interval import TaskMean, mean_interval
from labrunner.analysis.pairing import Arm
from labrunner.records.ids import make_trial_id
from tests.analysis.arms import ERROR, make_arm


def compare(baseline: Arm, other: Arm) -> Comparison:
    return compare_all([(baseline, other)])[0]


def spread(values: list[float]) -> dict[str, list[float | None]]:
    return {f"t{number}": [value] for number, value in enumerate(values)}


def test_difference_and_interval_are_those_of_the_paired_t_test() -> None:
    chance = np.random.default_rng(2)
    before, after = chance.random(30), chance.random(30) + 0.2
    found = compare(
        make_arm("a", spread(before.tolist()), metric="score"),
        make_arm("b", spread(after.tolist()), metric="score"),
    )
    expected = stats.ttest_rel(after, before)
    low, high = expected.confidence_interval()
    assert found.difference == pytest.approx((after - before).mean())
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert found.detectable == pytest.approx(2.8015852 * stats.sem(after - before))
    assert (found.measure, found.tasks, found.unit) == ("score", 30, "tasks")


def test_groups_of_tasks_cluster_the_difference_as_a_regression_on_a_constant_would() -> None:
    chance = np.random.default_rng(6)
    groups = {f"t{n}": f"g{n % 8}" for n in range(40)}
    shift = {f"g{n}": chance.normal(0, 0.3) for n in range(8)}
    before = {task: [float(chance.random())] for task in groups}
    after = {task: [before[task][0] + shift[groups[task]]] for task in groups}
    found = compare(
        make_arm("a", dict(before), metric="score", groups=dict(groups)),
        make_arm("b", dict(after), metric="score", groups=dict(groups)),
    )
    d = np.array([after[task][0] - before[task][0] for task in groups])
    codes = np.array([int(group[1:]) for group in groups.values()])
    fit = OLS(d, np.ones(40)).fit(
        cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False}, use_t=True
    )
    assert found.interval is not None
    # The regression leaves out the factor C/(C-1) that is told apart here.
    assert found.interval.standard_error == pytest.approx(float(fit.bse[0]) * (8 / 7) ** 0.5)
    assert (found.units, found.unit) == (8, "groups")
    assert found.p is not None
    assert found.p.method == "exact sign-flip over groups"


def test_single_replications_of_0_and_1_are_compared_by_mcnemar() -> None:
    before = spread([1.0] * 2 + [0.0] * 11 + [1.0] * 7)
    after = spread([0.0] * 2 + [1.0] * 11 + [1.0] * 7)
    found = compare(make_arm("a", before), make_arm("b", after))
    assert found.p is not None
    assert found.p.method == "exact McNemar"
    assert found.p.value == pytest.approx(0.0224609375)
    assert (found.wins, found.ties, found.losses, found.conclusion) == (11, 7, 2, "better")


def test_flips_name_a_trial_that_failed_and_one_that_passed() -> None:
    found = compare(
        make_arm("a", {"t0": [1.0, 0.0], "t1": [1.0, 1.0], "t2": [0.0, 0.0]}),
        make_arm("b", {"t0": [1.0, 1.0], "t1": [1.0, 0.0], "t2": [0.0, 0.0]}),
    )
    (up,), (down,) = found.up, found.down
    assert (up.task_id, up.baseline, up.other, up.difference) == ("t0", 0.5, 1.0, 0.5)
    assert (up.baseline_trial, up.other_trial) == (make_trial_id("a", "t0", 1), make_trial_id("b", "t0", 0))
    assert (down.baseline_trial, down.other_trial) == (
        make_trial_id("a", "t1", 0),
        make_trial_id("b", "t1", 1),
    )
    assert (found.wins, found.ties, found.losses) == (1, 1, 1)


def test_the_largest_flips_come_first() -> None:
    found = compare(
        make_arm("a", {"t0": [0.4], "t1": [0.1], "t2": [0.5]}, metric="score"),
        make_arm("b", {"t0": [0.5], "t1": [0.9], "t2": [0.2]}, metric="score"),
    )
    assert [flip.task_id for flip in found.up] == ["t1", "t0"]


def test_tasks_that_can_not_be_paired_are_counted_and_named() -> None:
    baseline = make_arm(
        "a", {"t0": [1.0], "t1": [ERROR], "t2": [1.0], "t3": [0.0]}, digests={"t2": "old", "t3": "same"}
    )
    other = make_arm(
        "b", {"t0": [1.0], "t1": [1.0], "t2": [1.0], "new": [1.0]}, digests={"t2": "new", "t3": "same"}
    )
    dropped = {each.why: (each.count, each.first) for each in compare(baseline, other).dropped}
    assert dropped == {
        "no graded trial of a": (1, ("t1",)),
        "its content is not the same on both sides": (1, ("t2",)),
        "not among the tasks of b": (1, ("t3",)),
        "not among the tasks of a": (1, ("new",)),
    }


def test_errors_that_could_turn_a_difference_leave_it_undecided() -> None:
    before = {f"t{n}": [0.0] for n in range(8)}
    sure = compare(make_arm("a", dict(before)), make_arm("b", {f"t{n}": [1.0] for n in range(8)}))
    assert sure.conclusion == "better"
    lossy = {f"t{n}": [0.0] for n in range(8)} | {f"e{n}": [1.0] for n in range(8)}
    bent = {f"t{n}": [1.0] for n in range(8)} | {f"e{n}": [ERROR] for n in range(8)}
    found = compare(make_arm("a", dict(lossy)), make_arm("b", dict(bent)))
    assert found.difference == 1.0
    assert found.errors is not None
    assert (found.errors.trials, found.errors.low, found.errors.high) == (8, 0.0, 0.5)
    assert found.conclusion == "undecided because of errors"


def test_no_difference_and_errors_that_hide_one_are_not_the_same() -> None:
    even = {f"t{n}": [float(n % 2)] for n in range(10)}
    assert compare(make_arm("a", dict(even)), make_arm("b", dict(even))).conclusion == "no difference shown"
    hidden = even | {f"e{n}": [ERROR] for n in range(30)}
    known = even | {f"e{n}": [0.0] for n in range(30)}
    assert compare(make_arm("a", known), make_arm("b", hidden)).conclusion == "undecided because of errors"


def test_a_few_errors_do_not_undo_what_holds_either_way() -> None:
    before = {f"t{n}": [0.0] for n in range(20)}
    after = {f"t{n}": [1.0] for n in range(19)} | {"t19": [ERROR]}
    assert compare(make_arm("a", dict(before)), make_arm("b", dict(after))).conclusion == "better"


def test_errors_on_a_scale_without_bounds_are_said_to_be_so() -> None:
    found = compare(
        make_arm("a", {"t0": [12.0], "t1": [15.0], "t2": [20.0]}, metric="seconds"),
        make_arm("b", {"t0": [11.0], "t1": [16.0], "t2": [ERROR]}, metric="seconds"),
    )
    assert (found.errors, found.has_unbounded_errors) == (None, True)


def test_errors_on_a_scale_without_bounds_leave_every_difference_undecided() -> None:
    before = {f"t{n}": [10.0 + n] for n in range(12)}
    after = {f"t{n}": [20.0 + n] for n in range(12)}
    sure = compare(make_arm("a", dict(before), metric="points"), make_arm("b", dict(after), metric="points"))
    assert sure.conclusion == "better"
    lossy = after | {"t11": [ERROR]}
    found = compare(make_arm("a", dict(before), metric="points"), make_arm("b", lossy, metric="points"))
    assert found.p is not None
    assert found.p.value < 0.05
    assert found.conclusion == "undecided because of errors"


def test_a_side_of_which_nothing_is_graded_is_undecided_because_of_errors() -> None:
    before = {f"t{n}": [float(n % 2)] for n in range(6)}
    found = compare(make_arm("a", before), make_arm("b", {f"t{n}": [ERROR] for n in range(6)}))
    assert (found.difference, found.p) == (None, None)
    assert found.conclusion == "undecided because of errors"


def test_several_comparisons_are_adjusted_together() -> None:
    baseline = make_arm("a", {f"t{n}": [0.0] for n in range(8)})
    others = [
        make_arm("b", {f"t{n}": [1.0] for n in range(8)}),
        make_arm("c", {f"t{n}": [float(n < 6)] for n in range(8)}),
        make_arm("d", {f"t{n}": [float(n < 1)] for n in range(8)}),
    ]
    found = compare_all([(baseline, other) for other in others])
    assert [each.p.value if each.p else None for each in found] == [2 / 256, 2 / 64, 1.0]
    assert [each.p_adjusted for each in found] == pytest.approx([6 / 256, 4 / 64, 1.0])
    assert [each.conclusion for each in found] == ["better", "no difference shown", "no difference shown"]
    assert {each.family for each in found} == {3}


def test_one_task_is_not_enough_data() -> None:
    found = compare(make_arm("a", {"t0": [0.0]}), make_arm("b", {"t0": [1.0]}))
    assert (found.conclusion, found.p, found.interval) == ("not enough data", None, None)
    nothing = compare(make_arm("a", {"t0": [ERROR]}), make_arm("b", {"t0": [1.0]}))
    assert (nothing.conclusion, nothing.difference) == ("not enough data", None)


def test_arms_with_other_metrics_are_compared_by_verdict() -> None:
    found = compare(
        make_arm("a", {"t0": [0.0], "t1": [0.0]}, metric="share"),
        make_arm("b", {"t0": [1.0], "t1": [0.0]}, metric="seconds"),
    )
    assert (found.measure, found.difference) == ("pass", 0.5)


def test_retries_that_could_turn_the_sign_are_told() -> None:
    again = {f"t{n}": [n < 4] for n in range(8)}
    before = make_arm("a", {f"t{n}": [0.0] for n in range(8)})
    after = make_arm("b", {f"t{n}": [float(n < 4)] for n in range(8)}, retried=again)
    found = compare(before, after)
    assert found.retries is not None
    assert (found.retries.trials, found.retries.low, found.retries.high) == (4, 0.0, 0.5)
    assert not is_conclusion_safe_from_retries(found)
    calm = compare(before, make_arm("b", {f"t{n}": [1.0] for n in range(8)}, retried=again))
    assert is_conclusion_safe_from_retries(calm)


@pytest.mark.parametrize("n", [30, 80])
def test_intervals_of_task_means_cover_the_truth_95_times_in_100(n: int) -> None:
    chance = np.random.default_rng(n)
    rates = chance.beta(2.0, 2.0, size=(3_000, n))
    means = chance.binomial(5, rates) / 5
    covered = 0
    for row in means:
        found = mean_interval([TaskMean(mean=mean, graded=5) for mean in row.tolist()], is_binary=True)
        covered += found is not None and found.low <= 0.5 <= found.high
    assert 0.94 <= covered / 3_000 <= 0.96


def test_intervals_of_paired_differences_cover_the_truth_95_times_in_100() -> None:
    chance = np.random.default_rng(21)
    covered = 0
    for _ in range(2_000):
        rates = chance.beta(0.5, 0.5, size=60) * 0.8
        before = chance.binomial(5, rates) / 5
        after = chance.binomial(5, rates + 0.1) / 5
        tasks = [TaskMean(mean=d, graded=5) for d in (after - before).tolist()]
        found = mean_interval(tasks, is_binary=False)
        covered += found is not None and found.low <= 0.1 <= found.high
    assert 0.94 <= covered / 2_000 <= 0.96


def test_treating_replications_as_independent_would_not_cover() -> None:
    chance = np.random.default_rng(3)
    covered = 0
    for row in chance.binomial(5, chance.beta(0.5, 0.5, size=(1_000, 50))):
        found = stats.binomtest(int(row.sum()), 250).proportion_ci(method="wilson")
        covered += found.low <= 0.5 <= found.high
    assert covered / 1_000 < 0.8
