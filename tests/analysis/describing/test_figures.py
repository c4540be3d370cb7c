import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types
from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped] # no types

from labrunner.analysis.describing.figures import Ends, Figures, compute_figures
from labrunner.analysis.judging.requirements import find_unmet, parse_requirements
from labrunner.analysis.sums.measure import choose_measure
from labrunner.analysis.sums.tally import Marked, Tally
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.records.rows import TrialRow
from tests.kit.analysis.trial_rows import failed, graded


def figures_of(*rows: TrialRow, tasks: int = 2, planned: int = 4) -> Figures:
    tally = Tally({f"t{number}": None for number in range(tasks)})
    for row in rows:
        tally.add(row)
    return compute_figures(tally, "a", planned, with_interval=True)


def test_every_task_weighs_the_same_however_often_it_was_graded() -> None:
    found = figures_of(
        graded(task_id="t0", value=1.0),
        graded(task_id="t0", repl_idx=1, value=1.0),
        graded(task_id="t0", repl_idx=2, value=1.0),
        graded(task_id="t1", value=0.0),
    )
    assert (found.observed, found.pass_rate) == (0.5, 0.5)


def test_errors_are_never_zeros_and_never_vanish() -> None:
    found = figures_of(
        graded(task_id="t0", value=1.0),
        failed(task_id="t0", repl_idx=1),
        graded(task_id="t1", value=0.0),
        failed(task_id="t1", repl_idx=1),
    )
    assert (found.lower, found.observed, found.upper) == (0.25, 0.5, 0.75)
    assert (found.graded, found.errors, found.missing, found.coverage) == (2, 2, 0, 0.5)
    assert found.causes == {"grade_error": 2}


def test_a_task_that_lost_all_its_trials_makes_the_figures_invalid_and_is_named() -> None:
    found = figures_of(graded(task_id="t0"), failed(task_id="t1"), failed(task_id="t1", repl_idx=1))
    assert (found.is_valid, found.ungraded_tasks, found.first_ungraded) == (False, 1, ("t1",))
    assert (found.lower, found.observed, found.upper) == (0.25, 1.0, 1.0)


def test_nothing_graded_is_not_a_rate_of_zero() -> None:
    found = figures_of()
    assert (found.observed, found.pass_rate, found.interval) == (None, None, None)
    assert (found.lower, found.upper) == (0.0, 1.0)
    assert (found.coverage, found.missing) == (0.0, 4)


def test_a_metric_beyond_0_to_1_has_no_bounds_but_a_mean() -> None:
    found = figures_of(graded(task_id="t0", value=12.0, metric="seconds"), failed(task_id="t1"))
    assert (found.measure, found.observed, found.lower, found.upper) == ("seconds", 12.0, None, None)


def test_what_is_owed_is_missing_too() -> None:
    found = figures_of(graded(task_id="t0", value=1.0), tasks=2, planned=4)
    assert (found.lower, found.observed, found.upper, found.coverage) == (0.25, 1.0, 1.0, 0.25)


def test_what_was_marked_as_not_to_be_used_is_bounded_and_told_as_it_ended() -> None:
    marked = graded(task_id="t0", repl_idx=1, value=0.0)
    tally = Tally({"t0": None}, {marked.ids.trial_id: "its answer was wrong"})
    tally.add(graded(task_id="t0", value=1.0))
    tally.add(marked)
    found = compute_figures(tally, "a", 2, with_interval=True)
    assert (found.lower, found.observed, found.upper, found.missing, found.invalidated) == (0.5, 1, 1, 0, 1)
    assert found.with_marked == 0.5
    assert found.marks == (Marked(reason="its answer was wrong", trials=1, first=marked.ids.trial_id),)


def test_nobody_raises_a_lower_bound_by_marking_failures() -> None:
    failures = [graded(task_id=f"t{n}", value=0.0) for n in range(4)]
    rows = [*failures, *(graded(task_id=f"t{n}", value=1.0) for n in range(4, 10))]

    def lower(marked: int) -> float | None:
        tally = Tally(
            {f"t{n}": None for n in range(10)}, {row.ids.trial_id: "x" for row in failures[:marked]}
        )
        for row in rows:
            tally.add(row)
        return compute_figures(tally, "a", 10, with_interval=True).lower

    assert lower(0) == lower(2) == lower(4) == 0.6


def test_marked_trials_of_another_metric_are_counted_and_not_averaged() -> None:
    odd = graded(task_id="t1", value=40.0, metric="seconds")
    tally = Tally({"t0": None, "t1": None}, {odd.ids.trial_id: "x"})
    tally.add(graded(task_id="t0", value=1.0))
    tally.add(odd)
    found = compute_figures(tally, "a", 2, with_interval=True)
    assert (found.invalidated, found.with_marked, found.observed) == (1, None, 1.0)


def test_sure_ends_hold_however_what_has_no_grade_had_ended() -> None:
    rows = [graded(task_id=f"t{n}", value=float(n > 0)) for n in range(10)]
    whole = figures_of(*rows, tasks=10, planned=10)
    assert whole.interval is not None
    assert whole.sure == Ends(low=whole.interval.low, high=whole.interval.high)
    lost = figures_of(*rows[:7], *(failed(task_id=f"t{n}") for n in range(7, 10)), tasks=10, planned=10)
    as_failed = figures_of(
        *rows[:7], *(graded(task_id=f"t{n}", value=0.0) for n in range(7, 10)), tasks=10, planned=10
    )
    as_passed = figures_of(*rows, tasks=10, planned=10)
    assert lost.sure is not None
    assert lost.interval is not None
    assert as_failed.interval is not None
    assert as_passed.interval is not None
    assert lost.sure.low == as_failed.interval.low < lost.interval.low
    assert lost.sure.high == max(as_passed.interval.high, lost.interval.high)


def test_nothing_is_sure_where_nothing_bounds_what_errored() -> None:
    rows = [graded(task_id=f"t{n}", value=2.0 + n, metric="seconds") for n in range(7)]
    assert figures_of(*rows, tasks=7, planned=7).sure is not None
    assert figures_of(*rows, failed(task_id="t7"), tasks=8, planned=8).sure is None


def test_about_these_tasks_only_luck_within_them_widens_an_interval() -> None:
    tally = Tally({f"t{n}": None for n in range(4)})
    for n in range(4):
        for repl_idx in range(10):
            tally.add(graded(task_id=f"t{n}", repl_idx=repl_idx, value=float(n % 2)))
    like = compute_figures(tally, "a", 40, with_interval=True).interval
    these = compute_figures(tally, "a", 40, with_interval=True, population="these_tasks")
    assert like is not None
    assert these.interval is not None
    assert these.interval.method == "Wilson within tasks"
    assert like.low < these.interval.low == pytest.approx(proportion_confint(20, 40, method="wilson")[0])
    first, *others = these.repeated
    assert first.any_passes.low == these.interval.low
    assert {each.any_passes.low for each in others} == {None}


def test_about_these_tasks_other_scores_go_by_how_trials_of_a_task_differ() -> None:
    scores = {"t0": [1.0, 3.0, 2.0], "t1": [10.0, 14.0, 12.0], "t2": [30.0, 31.0, 35.0]}
    seconds = DeclaredMetric(name="seconds", better="lower", min=0.0)
    tally = Tally(dict.fromkeys(scores), declared=frozenset({seconds}))
    for task_id, values in scores.items():
        for repl_idx, value in enumerate(values):
            tally.add(graded(task_id=task_id, repl_idx=repl_idx, value=value, metric="seconds"))
    found = compute_figures(tally, "a", 9, with_interval=True, population="these_tasks").interval
    assert found is not None
    error = np.sqrt(sum(np.var(values, ddof=1) / 3 for values in scores.values())) / 3
    assert found.standard_error == pytest.approx(error)
    assert found.method == "t within tasks"
    assert found.freedom is not None
    assert 1 <= found.freedom <= 6
    half = stats.t.ppf(0.975, found.freedom) * error
    mean = np.mean([np.mean(values) for values in scores.values()])
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half))


def test_about_these_tasks_scores_that_were_not_repeated_have_no_interval() -> None:
    tally = Tally({f"t{n}": None for n in range(4)})
    for n in range(4):
        tally.add(graded(task_id=f"t{n}", value=2.0 + n, metric="seconds"))
    assert compute_figures(tally, "a", 4, with_interval=True, population="these_tasks").interval is None


def test_a_declared_scale_stays_where_everything_failed_with_nothing() -> None:
    points = DeclaredMetric(name="points", min=0.0, max=100.0)
    tally = Tally({"t0": None, "t1": None}, declared=frozenset({points}))
    tally.add(graded(task_id="t0", value=0.0, metric="points"))
    tally.add(failed(task_id="t1"))
    found = compute_figures(tally, "a", 2, with_interval=True)
    assert (found.scale, found.observed, found.upper) == ((0.0, 100.0), 0.0, 50.0)
    (told,) = find_unmet(parse_requirements(["mean >= 50"]), [found], None, ())
    assert told == "mean >= 50: a's mean is 0"


@pytest.mark.parametrize(
    ("declared", "is_rate"),
    [
        (None, True),
        (DeclaredMetric(name="points", min=0.0, max=1.0), True),
        (DeclaredMetric(name="points"), False),
    ],
)
def test_scores_like_verdicts_are_verdicts_where_no_other_scale_is_declared(
    declared: DeclaredMetric | None, is_rate: bool
) -> None:
    tally = Tally({"t0": None, "t1": None}, declared=frozenset({declared}))
    for number in range(2):
        tally.add(graded(task_id=f"t{number}", value=float(number), metric="points"))
    measure = choose_measure(tally.variants["a"])
    assert (measure.name, measure.is_rate, measure.bounds is not None) == ("points", is_rate, is_rate)


def test_declared_bounds_bound_what_is_missing() -> None:
    points = DeclaredMetric(name="points", min=-10.0, max=30.0)
    tally = Tally({"t0": None, "t1": None}, declared=frozenset({points}))
    tally.add(graded(task_id="t0", value=12.0, metric="points"))
    tally.add(failed(task_id="t1"))
    found = compute_figures(tally, "a", 2, with_interval=True)
    assert (found.lower, found.observed, found.upper, found.scale) == (1.0, 12.0, 21.0, (-10.0, 30.0))


@pytest.mark.parametrize("value", [-1e200, 1e308])
def test_a_score_that_is_no_measurement_is_an_error_and_the_run_can_be_read(value: float) -> None:
    found = figures_of(
        graded(task_id="t0", value=value, metric="points"), graded(task_id="t1", value=3.0, metric="points")
    )
    assert (found.observed, found.errors, found.causes) == (3.0, 1, {"grade_error": 1})


def test_differing_primary_metrics_are_not_averaged_but_their_verdicts_are() -> None:
    found = figures_of(
        graded(task_id="t0", value=12.0, metric="seconds"), graded(task_id="t1", value=0.2, metric="share")
    )
    assert (found.measure, found.observed, found.lower, found.upper) == ("pass", 0.5, 0.25, 0.75)


def test_the_interval_is_about_the_observed_mean_and_names_its_method() -> None:
    found = figures_of(*(graded(task_id=f"t{n}", value=float(n % 2)) for n in range(10)), tasks=10)
    assert found.interval is not None
    assert found.interval.method == "Wilson over tasks"
    assert (found.interval.low + found.interval.high) / 2 == pytest.approx(found.observed)


def test_groups_of_tasks_reach_the_interval() -> None:
    tally = Tally({f"t{number}": "even" if number % 2 == 0 else "odd" for number in range(6)})
    for number in range(6):
        tally.add(graded(task_id=f"t{number}", value=number / 6))
    found = compute_figures(tally, "a", 6, with_interval=True).interval
    assert found is not None
    assert (found.method, found.units) == ("t over groups", 2)
