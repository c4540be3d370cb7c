from collections.abc import Mapping

import msgspec

from labrunner.analysis.judging.cautions import COMMAND_NOT_FOUND
from labrunner.analysis.report import make_report
from labrunner.analysis.sums.conduct import SYSTEM_CHANGED
from labrunner.analysis.sums.expense import Expense
from labrunner.analysis.sums.tally import NONE_MARKED, UNDECLARED, Declared, Tally
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.records.glance import AttemptTimes, TimingGlance
from labrunner.records.rows import TrialRow
from tests.kit.analysis.trial_rows import failed, graded


def cautions_of(
    *rows: TrialRow,
    tasks: int = 2,
    planned: int | None = None,
    invalidated: Mapping[str, str] = NONE_MARKED,
    declared: Declared = UNDECLARED,
) -> dict[str, str]:
    tally = Tally({f"t{number}": None for number in range(tasks)}, invalidated, declared=declared)
    for row in rows:
        tally.add(row)
    variants = dict.fromkeys((row.ids.variant_id for row in rows), planned or len(rows))
    return {each.kind: str(each) for each in make_report(tally, variants).cautions}


def test_ragged_replications_are_told() -> None:
    found = cautions_of(
        graded(task_id="t0"), graded(task_id="t1"), graded(task_id="t1", repl_idx=1, value=0.0)
    )
    assert found == {"ragged": "a: tasks have 1 to 2 graded trials; each weighs the same in the mean"}


def test_changed_system_paths_are_told() -> None:
    rows = [msgspec.structs.replace(graded(task_id=f"t{n}"), flags=(SYSTEM_CHANGED,)) for n in range(2)]
    found = cautions_of(*rows)
    assert found == {"system_changed": "a: in 2 trials the agent changed the system that the grader ran in"}


def test_agents_whose_command_was_not_there_are_told() -> None:
    rows = [msgspec.structs.replace(graded(task_id=f"t{n}"), flags=(COMMAND_NOT_FOUND,)) for n in range(2)]
    told = cautions_of(*rows)["command_not_found"]
    assert told.startswith("a: 2 agents exited with 126 or 127, as where a command is not found")


def test_invalidated_trials_are_left_out_and_counted() -> None:
    rows = [
        graded(task_id="t0", value=1.0),
        graded(task_id="t1", value=0.0),
        graded(task_id="t1", repl_idx=1, value=1.0),
    ]
    found = cautions_of(*rows, invalidated={rows[1].ids.trial_id: "the answer\nwas wrong"})
    assert found["invalidated"] == (
        "a: 1 trial marked as not to be used, left out of all but the bounds; with it the mean would be "
        '0.750; why: "the answer was wrong" (1)'
    )
    assert found["coverage"] == "a: only 67% of the planned trials are graded (2 of 3)"


def test_reasons_of_marks_are_counted_and_the_first_of_many_named() -> None:
    rows = [graded(task_id="t0", repl_idx=n, value=float(n % 2)) for n in range(10)]
    marks = {row.ids.trial_id: f"reason {number // 2}" for number, row in enumerate(rows[:9])}
    told = cautions_of(*rows, tasks=1, invalidated=marks)["invalidated"]
    assert told.endswith('why: "reason 0" (2), "reason 1" (2), "reason 2" (2), and 2 further reasons')


def test_coverage_lost_tasks_and_errors_are_told() -> None:
    found = cautions_of(graded(task_id="t0"), failed(task_id="t1"))
    assert set(found) == {"errors", "coverage", "ungraded"}


def test_bounds_that_hold_more_than_errors_say_so() -> None:
    rows = [*(graded(task_id=f"t{n}") for n in range(3)), failed(task_id="t3")]
    told = cautions_of(*rows, tasks=4)["errors"]
    assert told.endswith("left out of the mean; counted as 0 or as 1 it is 0.750 to 1.000")
    more = cautions_of(*rows, tasks=4, invalidated={rows[0].ids.trial_id: "x"})["errors"]
    assert more.endswith("counted as 0 or as 1, with what else has none, it is 0.500 to 1.000")


def test_bounds_are_told_with_the_ends_of_the_declared_scale() -> None:
    declared = frozenset({DeclaredMetric(name="points", min=-10.0, max=100.0)})
    rows = [graded(task_id="t0", value=40.0, metric="points"), failed(task_id="t1")]
    told = cautions_of(*rows, declared=declared)["errors"]
    assert told.endswith("counted as -10 or as 100 it is 15.000 to 70.000")


def test_where_nothing_is_graded_no_mean_speaks_of_anything() -> None:
    assert set(cautions_of(failed(task_id="t0"), failed(task_id="t1"))) == {"errors", "coverage"}


def test_retry_rates_that_differ_are_told_with_both_rates() -> None:
    rows = [graded("a", f"t{n}", value=float(n % 2)) for n in range(40)]
    rows += [graded("b", f"t{n}", value=float(n % 2), attempts=2 if n < 10 else 1) for n in range(40)]
    told = cautions_of(*rows, tasks=40, planned=40)["retry_rates"]
    assert told.startswith("b: 25.0% of its trials needed a retry, 0.0% of a's (p = 0.00")


def test_a_sound_run_has_none() -> None:
    assert cautions_of(graded(task_id="t0"), graded(task_id="t1", value=0.0)) == {}


def test_attempts_that_an_outage_cut_off_are_not_told_as_those_of_a_crash_alone() -> None:
    tally, expense = Tally({"t0": None}), Expense()
    row = graded("a", "t0")
    tally.add(row)
    expense.add(
        row, TimingGlance(schedule_idx=0, attempts=(AttemptTimes(ended_at=""),), cut_off=("1.cut-1",))
    )
    report = make_report(tally, {"a": 1}, expense=expense)
    (told,) = [each.text for each in report.cautions if each.kind == "cut_off"]
    assert told.startswith(
        "1 attempt cut off by a crash, a stop or an outage and run again; of what they used"
    )
