import pytest

from labrunner.analysis.describing.figures import Figures, compute_figures
from labrunner.analysis.sums.tally import Tally
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


def test_what_was_marked_as_not_to_be_used_is_not_missing() -> None:
    marked = graded(task_id="t0", repl_idx=1, value=0.0)
    tally = Tally({"t0": None}, {marked.ids.trial_id})
    tally.add(graded(task_id="t0", value=1.0))
    tally.add(marked)
    found = compute_figures(tally, "a", 2, with_interval=True)
    assert (found.lower, found.upper, found.missing, found.invalidated) == (1.0, 1.0, 0, 1)


def test_declared_bounds_bound_what_is_missing() -> None:
    tally = Tally({"t0": None, "t1": None}, metric=DeclaredMetric(name="points", min=-10.0, max=30.0))
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
