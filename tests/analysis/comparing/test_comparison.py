import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped] # no types

from labrunner.analysis.comparing.comparison import Comparison, compare_all, is_conclusion_safe_from_retries
from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.judging.sentences import describe
from labrunner.errors import InputError
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.records.encoding.ids import make_trial_id
from tests.kit.analysis.arms import ERROR, make_arm
from tests.kit.analysis.trial_rows import graded


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
    assert found.answer is not None
    assert (found.answer.interval.low, found.answer.interval.high) == pytest.approx((low, high))
    assert found.others is not None
    assert found.others.p == pytest.approx(expected.pvalue)
    shift = (found.detectable or 0) / stats.sem(after - before)
    assert stats.nct.sf(stats.t.ppf(0.975, 29), 29, shift) == pytest.approx(0.8, abs=1e-6)
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
    assert found.others is not None
    # The regression leaves out the factor C/(C-1) that groups of equal size get by CR2.
    assert found.others.standard_error == pytest.approx(float(fit.bse[0]) * (8 / 7) ** 0.5)
    assert (found.units, found.unit, found.others.freedom) == (8, "groups", 7)
    assert found.others.method == "t over groups"
    assert found.others.check is not None
    assert found.others.check.method == "sign-flip over groups, all of them"


def test_single_replications_of_0_and_1_are_compared_by_t_on_these_tasks_too() -> None:
    found = compare(make_arm("a", spread([1.0] + [0.0] * 4)), make_arm("b", spread([0.0] + [1.0] * 4)))
    assert found.here is not None
    assert found.here.p > 2 / 16
    assert (found.wins, found.ties, found.losses, found.conclusion) == (4, 0, 1, "too few tasks")
    before = spread([1.0] * 2 + [0.0] * 11 + [1.0] * 7)
    after = spread([0.0] * 2 + [1.0] * 11 + [1.0] * 7)
    found = compare(make_arm("a", before), make_arm("b", after))
    assert found.here is not None
    assert found.here == found.others
    assert found.here.p == pytest.approx(
        stats.ttest_rel([v[0] for v in after.values()], [v[0] for v in before.values()]).pvalue, rel=1e-3
    )
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
    assert found.others is not None
    assert found.others.p < 0.05
    assert found.conclusion == "undecided because of errors"


def test_a_side_of_which_nothing_is_graded_is_undecided_because_of_errors() -> None:
    before = {f"t{n}": [float(n % 2)] for n in range(6)}
    found = compare(make_arm("a", before), make_arm("b", {f"t{n}": [ERROR] for n in range(6)}))
    assert (found.difference, found.here, found.others) == (None, None, None)
    assert found.conclusion == "undecided because of errors"


def test_several_comparisons_are_adjusted_together() -> None:
    baseline = make_arm("a", {f"t{n}": [0.0] for n in range(8)})
    others = [
        make_arm("b", {f"t{n}": [1.0] for n in range(8)}),
        make_arm("c", {f"t{n}": [float(n < 5)] for n in range(8)}),
        make_arm("d", {f"t{n}": [float(n < 1)] for n in range(8)}),
    ]
    found = compare_all([(baseline, other) for other in others])
    answers = [each.others for each in found if each.others]
    p = [each.p for each in answers]
    flips = [1.0] * 5 + [0.0] * 3
    error = np.sqrt(np.var(flips, ddof=1) / 8 + 2.0**-3 / (8 * 7))
    assert p[:2] == pytest.approx([2 / 256, 2 * stats.t.sf(0.625 / error, 7)])
    assert [each.p_adjusted for each in answers] == pytest.approx([3 * p[0], 2 * p[1], p[2]])
    assert [each.interval.level for each in answers] == pytest.approx([1 - 0.05 / 3] * 3)
    assert [each.conclusion for each in found] == ["better", "better", "no difference shown"]
    assert {each.family for each in found} == {3}


def test_what_only_a_further_step_of_holm_shows_is_told_at_the_level_of_that_step() -> None:
    baseline = make_arm("a", {f"t{n}": [0.0] for n in range(12)})
    others = [
        make_arm("b", {f"t{n}": [1.0] for n in range(12)}),
        make_arm("c", {f"t{n}": [float(n < 4)] for n in range(12)}),
    ]
    first, second = (each.others for each in compare_all([(baseline, other) for other in others]))
    assert first is not None
    assert second is not None
    assert 0.05 / 2 < second.p < 0.05
    assert (first.interval.level, second.interval.level) == pytest.approx((0.975, 0.95))
    assert second.interval.low > 0


def test_what_was_asked_counts_also_where_data_are_too_few_for_an_answer() -> None:
    baseline = make_arm("a", {f"t{n}": [0.0] for n in range(8)})
    whole = make_arm("b", {f"t{n}": [1.0] for n in range(8)})
    lost = make_arm("c", {f"t{n}": [ERROR] for n in range(8)})
    found, nothing = compare_all([(baseline, whole), (baseline, lost)])
    assert found.others is not None
    assert (nothing.others, found.family) == (None, 2)
    assert found.others.p_adjusted == 2 * found.others.p


def test_trials_that_were_marked_are_left_out_and_told_with_what_comes_out_with_them() -> None:
    arms = [make_arm(name, {f"t{n}": [float(name == "b")] for n in range(8)}) for name in ("a", "b")]
    for n in range(4):
        arms[1].tally.mark(graded("b", f"t{n}", 1, value=0.0), "x")
    found = compare(*arms)
    assert (found.difference, found.marked, found.with_marked, found.conclusion) == (1.0, 4, 0.75, "better")
    assert "4 trials are left out, marked as not to be used; with them the difference would be +0.750." in (
        describe(found)
    )


def test_one_task_is_not_enough_data() -> None:
    found = compare(make_arm("a", {"t0": [0.0]}), make_arm("b", {"t0": [1.0]}))
    assert (found.conclusion, found.others) == ("too few tasks", None)
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


def collapse() -> tuple[dict[str, list[float | None]], dict[str, list[float | None]]]:
    before: dict[str, list[float | None]] = {f"t{n}": [1.0, 1.0, 1.0] for n in range(5)}
    after: dict[str, list[float | None]] = {f"t{n}": [float(n == 0), 0.0, 0.0] for n in range(5)}
    return before, after


def test_a_collapse_on_five_tasks_is_shown_on_these_and_says_nothing_of_others() -> None:
    before, after = collapse()
    found = compare(make_arm("a", before), make_arm("b", after))
    assert (found.conclusion, found.others, found.detectable) == ("too few tasks", None, None)
    assert describe(found) == (
        "On these 5 tasks b is worse than a (p < 0.001). Too few tasks to speak of others (5; it takes 6)."
    )
    fixed = [
        make_arm(name, scores, population="these_tasks") for name, scores in (("a", before), ("b", after))
    ]
    asked = compare(*fixed)
    assert (asked.conclusion, asked.answer) == ("worse", asked.here)
    assert asked.here is not None
    assert asked.here.interval.high < 0


def test_less_of_a_metric_is_better_where_its_author_says_so() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    before = make_arm("a", spread([9.7 + n / 10 for n in range(8)]), metric="seconds", declared=seconds)
    after = make_arm("b", spread([5.3 + n / 7 for n in range(8)]), metric="seconds", declared=seconds)
    found = compare(before, after)
    assert (found.conclusion, found.wins, found.losses) == ("better", 8, 0)
    assert found.difference is not None
    assert found.difference < 0
    assert "b is better" in describe(found)


def timed(name: str, first: float, declared: DeclaredMetric | None) -> Arm:
    return make_arm(name, spread([first + n / 7 for n in range(8)]), metric="seconds", declared=declared)


def test_a_direction_stays_where_only_bounds_were_declared_otherwise() -> None:
    before = timed("a", 9.7, DeclaredMetric(name="seconds", better="lower"))
    after = timed("b", 5.3, DeclaredMetric(name="seconds", better="lower", min=0.0))
    found = compare(before, after)
    assert (found.better, found.conclusion, found.reach) == ("lower", "better", None)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (None, "a declares nothing of it and b says that lower is better"),
        (DeclaredMetric(name="seconds"), "a says that higher is better and b says that lower is better"),
    ],
)
def test_no_direction_is_guessed_where_the_two_sides_do_not_agree(
    declared: DeclaredMetric | None, told: str
) -> None:
    after = timed("b", 5.3, DeclaredMetric(name="seconds", better="lower"))
    with pytest.raises(InputError, match=f"it is not known which way `seconds` is better, for {told}"):
        compare(timed("a", 9.7, declared), after)
    assert compare(timed("a", 9.7, None), timed("b", 5.3, DeclaredMetric(name="seconds"))).losses == 8


def test_bounds_are_declared_and_not_read_off_the_scores() -> None:
    before: dict[str, list[float | None]] = {f"t{n}": [0.2 + n / 30] for n in range(10)}
    after: dict[str, list[float | None]] = {f"t{n}": [0.9 - n / 50 if n < 9 else ERROR] for n in range(10)}
    free = compare(make_arm("a", dict(before), metric="share"), make_arm("b", dict(after), metric="share"))
    assert (free.reach, free.has_unbounded_errors) == (None, True)
    share = DeclaredMetric(name="share", min=0.0, max=1.0)
    bounded = compare(
        make_arm("a", dict(before), metric="share", declared=share),
        make_arm("b", dict(after), metric="share", declared=share),
    )
    assert (bounded.reach, bounded.conclusion) == (1.0, "better")
    assert bounded.errors is not None


def test_of_these_tasks_none_are_too_few_for_no_difference() -> None:
    def alike(name: str, *more: float | None) -> Arm:
        scores: dict[str, list[float | None]] = {f"t{n}": [5.0, 5.0] for n in range(3)}
        scores |= {"t3": list(more)} if more else {}
        return make_arm(name, scores, metric="seconds", population="these_tasks")

    found = compare(alike("a"), alike("b"))
    assert (found.here, found.conclusion) == (None, "no difference shown")
    assert compare(alike("a", 5.0), alike("b", ERROR)).conclusion == "undecided because of errors"
    one = compare(
        make_arm("a", {"t0": [5.0]}, metric="seconds", population="these_tasks"),
        make_arm("b", {"t0": [9.0]}, metric="seconds", population="these_tasks"),
    )
    assert (one.here, one.conclusion) == (None, "not enough data")


def test_twenty_ties_are_no_difference_within_an_interval() -> None:
    found = compare(make_arm("a", spread([1.0, 0.0] * 10)), make_arm("b", spread([1.0, 0.0] * 10)))
    assert found.others is not None
    assert found.others.p == 1.0
    assert found.others.interval.low == -found.others.interval.high
    assert 0.1 < found.others.interval.high < 0.25
    assert found.conclusion == "no difference shown"


def test_where_no_task_differs_a_family_leaves_as_much_open_as_its_level_says() -> None:
    same = {f"t{n}": [1.0, 0.0] for n in range(25)}
    steady = {f"t{n}": [1.0, 1.0] for n in range(25)}
    for scores, alike in ((same, False), (steady, True)):
        arms = [make_arm(name, dict(scores)) for name in "abc"]
        for found in compare_all([(arms[0], other) for other in arms[1:]]):
            assert found.others is not None
            assert found.here is not None
            level = found.others.interval.level
            t, z = stats.t.ppf((1 + level) / 2, 24), stats.norm.ppf((1 + level) / 2)
            assert level == pytest.approx(0.975)
            assert found.others.interval.high == pytest.approx(t * t / (25 + t * t))
            if alike:
                assert found.here.interval.high == pytest.approx(z * z / (50 + z * z))


def test_differences_that_are_rounding_only_are_ties() -> None:
    before = {f"t{n}": [0.1, 0.2] for n in range(30)}
    after = {f"t{n}": [0.2, 0.1 + (1e-17 if n % 3 else 0.0)] for n in range(30)}
    found = compare(make_arm("a", dict(before), metric="share"), make_arm("b", dict(after), metric="share"))
    assert (found.ties, found.conclusion) == (30, "no difference shown")
    assert "nothing bounds them" in describe(found)


def test_interval_and_p_never_disagree_whatever_the_family() -> None:
    chance = np.random.default_rng(4)
    for _ in range(60):
        n, k = int(chance.integers(6, 14)), int(chance.integers(1, 4))
        rates = chance.random(4)
        arms = [
            make_arm(name, {f"t{i}": (chance.random(k) < rate).astype(float).tolist() for i in range(n)})
            for name, rate in zip("abcd", rates, strict=True)
        ]
        for found in compare_all([(arms[0], other) for other in arms[1:]]):
            for answer in (found.here, found.others):
                assert answer is not None
                is_without_zero = answer.interval.low > 0 or answer.interval.high < 0
                assert is_without_zero == (answer.p_adjusted < 0.05), answer


def test_more_tasks_that_flip_the_same_way_never_undo_what_is_shown() -> None:
    for tasks in (6, 8, 12, 20):
        shown = []
        for flipped in range(tasks + 1):
            before, after = spread([0.0] * tasks), spread([1.0] * flipped + [0.0] * (tasks - flipped))
            found = compare(make_arm("a", before), make_arm("b", after)).others
            assert found is not None
            shown.append(found.p < 0.05)
        assert shown == sorted(shown)
        assert shown.index(True) == 4


def test_fewer_than_four_tasks_that_differ_show_nothing_and_it_says_so() -> None:
    found = compare(make_arm("a", spread([0.0] * 30)), make_arm("b", spread([1.0] * 3 + [0.0] * 27)))
    assert found.conclusion == "no difference shown"
    assert describe(found).endswith("Only 3 tasks differ: too few to show anything of others.")


def test_both_questions_are_answered_in_one_sentence() -> None:
    before = {f"t{n}": [1.0 if n < 4 else 0.0] * 5 for n in range(12)}
    after = {f"t{n}": [1.0 if n < 9 else 0.0] * 5 for n in range(12)}
    found = compare(make_arm("v1", dict(before)), make_arm("v2", dict(after)))
    assert describe(found) == (
        "On these 12 tasks v2 is better than v1 (p < 0.001). "
        "On tasks like these, v2 minus v1 in mean `solved`: +0.417 (95% interval 0.089 to 0.744), p = 0.017."
    )


def test_treating_replications_as_independent_would_not_cover() -> None:
    chance = np.random.default_rng(3)
    covered = 0
    for row in chance.binomial(5, chance.beta(0.5, 0.5, size=(1_000, 50))):
        found = stats.binomtest(int(row.sum()), 250).proportion_ci(method="wilson")
        covered += found.low <= 0.5 <= found.high
    assert covered / 1_000 < 0.8


def test_trials_that_all_pass_do_not_prove_that_variants_are_equal_on_these_tasks() -> None:
    every = {f"t{n}": [1.0] * 5 for n in range(4)}
    found = compare(make_arm("a", dict(every)), make_arm("b", dict(every))).here
    assert found is not None
    z = stats.norm.ppf(0.975)
    assert (found.p, found.difference) == (1.0, 0.0)
    assert found.interval.high == -found.interval.low == pytest.approx(z * z / (20 + z * z))


def test_a_p_near_one_does_not_blow_up_the_interval_on_these_tasks() -> None:
    before = {f"t{n}": [1.0, 0.0, 1.0] for n in range(9)}
    after = {f"t{n}": [1.0, 0.0, 1.0 - float(n == 0)] for n in range(8)} | {"t8": [1.0, 1.0, 1.0]}
    after |= {"t7": [1.0, 1.0, 1.0]}
    found = compare(make_arm("a", dict(before)), make_arm("b", dict(after))).here
    assert found is not None
    assert found.p > 0.7
    assert found.interval.low < 0 < found.interval.high
    assert found.interval.high - found.interval.low < 0.8


@pytest.mark.parametrize("effect", [0.5, 5.0, 500.0])
def test_on_these_tasks_an_effect_however_large_is_not_taken_for_luck(effect: float) -> None:
    chance = np.random.default_rng(1)
    luck = chance.normal(0, 0.1, (2, 10, 5))
    before = {f"t{n}": luck[0, n].tolist() for n in range(10)}
    after = {f"t{n}": (luck[1, n] + effect).tolist() for n in range(10)}
    found = compare(
        make_arm("a", dict(before), metric="points"), make_arm("b", dict(after), metric="points")
    ).here
    assert found is not None
    expected = np.sqrt(luck.var(axis=2, ddof=1).sum() / 5) / 10
    assert found.standard_error == pytest.approx(expected)
    assert found.interval.high - found.interval.low < 0.2
    assert found.p < 1e-9


def test_on_these_tasks_one_task_of_many_trials_is_welchs_t() -> None:
    chance = np.random.default_rng(4)
    a, b = chance.normal(1, 0.3, 9), chance.normal(1.4, 0.3, 9)
    found = compare(
        make_arm("a", {"t0": a.tolist()}, metric="points"), make_arm("b", {"t0": b.tolist()}, metric="points")
    ).here
    assert found is not None
    welch = stats.ttest_ind(b, a, equal_var=False)
    assert found.standard_error == pytest.approx(float(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 9)))
    assert found.p == pytest.approx(welch.pvalue, rel=0.1)


def test_one_trial_of_a_measured_score_on_each_side_tells_nothing_of_luck() -> None:
    found = compare(
        make_arm("a", {"t0": [0.3]}, metric="points"), make_arm("b", {"t0": [0.7]}, metric="points")
    )
    assert (found.here, found.conclusion) == (None, "too few tasks")
    assert describe(found).startswith(
        "On this 1 task: undefined, for one trial on each side tells nothing of luck."
    )
