import pytest

from labrunner.analysis.figures import Figures, compute_figures
from labrunner.analysis.tally import Tally
from labrunner.records.rows import TrialRow
from tests.analysis.trial_rows import failed, graded


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
    assert (found.lower, found.observed, found.upper) == (0.5, 1.0, 1.0)


def test_nothing_graded_is_not_a_rate_of_zero() -> None:
    found = figures_of()
    assert (found.observed, found.pass_rate, found.lower, found.interval) == (None, None, None, None)
    assert (found.coverage, found.missing) == (0.0, 4)


def test_a_metric_beyond_0_to_1_has_no_bounds_but_a_mean() -> None:
    found = figures_of(graded(task_id="t0", value=12.0, metric="seconds"), failed(task_id="t1"))
    assert (found.measure, found.observed, found.lower, found.upper) == ("seconds", 12.0, None, None)


def test_differing_primary_metrics_are_not_averaged_but_their_verdicts_are() -> None:
    found = figures_of(
        graded(task_id="t0", value=12.0, metric="seconds"), graded(task_id="t1", value=0.2, metric="share")
    )
    assert (found.measure, found.observed, found.lower, found.upper) == ("pass", 0.5, 0.5, 0.5)


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
