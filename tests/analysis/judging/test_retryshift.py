import random
from dataclasses import replace

import msgspec
import pytest

from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.describing.figures import Figures, compute_all
from labrunner.analysis.judging.retryshift import CAUTION, RetryShift, VariantShift, report_retries
from labrunner.analysis.report import make_arms
from labrunner.analysis.sums.tally import Tally
from tests.kit.analysis.arms import make_arm
from tests.kit.analysis.trial_rows import failed, graded

TRUE_RATE, ERROR_IF_FAILING, ERROR_IF_PASSING = 0.40, 0.15, 0.02


def side(name: str, tally: Tally) -> tuple[Arm, Figures]:
    trials = tally.variants[name].graded + tally.variants[name].errors
    (arm,), (figures,) = make_arms(tally, {name: trials}), compute_all(tally, {name: trials})
    return arm, figures


def known(report: RetryShift | None) -> RetryShift:
    assert report is not None
    return report


def roll(chance: random.Random) -> bool | None:
    """One attempt: passed, failed, or (None) ended by an error that failing inputs trigger more often."""
    would_pass = chance.random() < TRUE_RATE
    errs = chance.random() < (ERROR_IF_PASSING if would_pass else ERROR_IF_FAILING)
    return None if errs else would_pass


def simulate(tasks: int, replications: int) -> Tally:
    """A run that retries until clear."""
    chance = random.Random(17)
    tally = Tally({f"t{n}": None for n in range(tasks)})
    for n in range(tasks):
        for repl_idx in range(replications):
            attempts = 1
            while (passed := roll(chance)) is None:
                attempts += 1
            tally.add(graded("a", f"t{n}", repl_idx, value=float(passed), attempts=attempts))
    return tally


def test_retrying_only_failing_inputs_moves_the_headline_as_worked_out_and_the_bounds_hold_the_truth() -> (
    None
):
    # Worked out: cleared passes 0.4 * 0.98 = 0.392, cleared failures 0.6 * 0.85 = 0.51, so retrying until
    # clear ends at 0.392 / 0.902 = 0.4346 instead of 0.40.
    (shift,) = known(report_retries([side("a", simulate(400, 100))])).variants
    assert shift.headline == pytest.approx(0.4346, abs=0.005)
    assert shift.as_zero == pytest.approx(0.392, abs=0.005)
    assert shift.as_one == pytest.approx(0.392 + 0.098, abs=0.005)
    assert shift.as_zero is not None
    assert shift.as_one is not None
    assert shift.as_zero <= TRUE_RATE <= shift.as_one
    assert shift.rate == pytest.approx(0.098, abs=0.004)


def test_in_that_very_case_outcomes_alone_show_nothing_and_the_report_says_so() -> None:
    report = known(report_retries([side("a", simulate(100, 40))]))
    assert report.variants[0].within_tasks.p_value is not None
    assert report.variants[0].within_tasks.p_value > 0.05
    assert report.caution == CAUTION


def test_a_run_without_retries_has_no_report() -> None:
    tally = Tally({"t0": None})
    tally.add(graded("a", "t0"))
    assert report_retries([side("a", tally)]) is None


def shift_of(scores: dict[str, list[float | None]], retried: dict[str, list[bool]]) -> VariantShift:
    arm = make_arm("a", scores, retried=retried)
    (figures,) = compute_all(Tally(arm.groups), {"a": 0})
    return known(report_retries([(arm, replace(figures, observed=0.5))])).variants[0]


def test_the_headline_is_told_with_retried_trials_as_0_as_1_and_left_out() -> None:
    found = shift_of(
        {"t0": [1.0, 1.0, 0.0, 0.0], "t1": [1.0, 1.0, 1.0, 1.0]},
        {"t0": [True, False, True, False], "t1": [False, False, False, True]},
    )
    assert found.as_zero == pytest.approx((1 / 4 + 3 / 4) / 2)
    assert found.as_one == pytest.approx((3 / 4 + 4 / 4) / 2)
    assert found.left_out == pytest.approx((1 / 2 + 3 / 3) / 2)
    assert (found.retried, found.finished, found.attempts, found.most_attempts) == (3, 8, 11, 2)


def test_a_retried_trial_that_errored_in_the_end_counts_in_the_bounds() -> None:
    tally = Tally({"t0": None})
    tally.add(graded("a", "t0", 0, value=1.0))
    row = failed("a", "t0", 1)
    tally.add(msgspec.structs.replace(row, attempts=row.attempts * 2))
    found = known(report_retries([side("a", tally)])).variants[0]
    assert (found.as_zero, found.as_one, found.left_out) == (0.5, 1.0, 1.0)


def test_where_nothing_is_graded_retries_can_not_be_told() -> None:
    tally = Tally({"t0": None})
    row = failed("a", "t0", 0)
    tally.add(msgspec.structs.replace(row, attempts=row.attempts * 2))
    found = known(report_retries([side("a", tally)]))
    assert (found.answer, found.is_bounded) == ("can't tell", False)
    assert found.verdict == (
        "can't tell: 1 of 1 trials needed a retry, "
        "and nothing bounds what those of a would have scored without"
    )


def test_where_nothing_bounds_a_score_retries_can_not_be_told() -> None:
    tally = Tally({f"t{n}": None for n in range(4)})
    for n in range(4):
        tally.add(graded("a", f"t{n}", value=10.0 + n, metric="seconds", attempts=1 + (n == 0)))
    assert known(report_retries([side("a", tally)])).answer == "can't tell"


def test_nine_of_ten_retried_trials_are_not_called_harmless() -> None:
    tally = Tally({f"t{n}": None for n in range(10)})
    for n in range(10):
        tally.add(graded("a", f"t{n}", value=float(n < 9), attempts=1 + (n < 9)))
    found = known(report_retries([side("a", tally)]))
    assert found.answer == "not bounded"
    assert found.verdict == (
        "not bounded: 9 of 10 trials needed a retry; scored as the worst or the best, they move a's mean by "
        "up to 0.900 of its scale, more than 0.02"
    )


def test_a_few_retries_are_bounded() -> None:
    tally = Tally({f"t{n}": None for n in range(100)})
    for n in range(100):
        tally.add(graded("a", f"t{n}", value=float(n % 2), attempts=1 + (n < 2)))
    found = known(report_retries([side("a", tally)]))
    assert found.answer == "bounded"
    assert found.variants[0].move == pytest.approx(0.01)
    assert known(report_retries([side("a", tally)], margin=0.005)).answer == "not bounded"


def test_attempts_in_earlier_runs_of_a_lineage_count_as_retries() -> None:
    tally = Tally({"t0": None, "t1": None})
    tally.add(graded("a", "t0", value=1.0), earlier=2)
    tally.add(graded("a", "t1", value=1.0))
    (found,) = known(report_retries([side("a", tally)])).variants
    assert (found.retried, found.attempts, found.most_attempts, found.as_zero) == (1, 4, 3, 0.5)


def test_retry_rates_are_compared_task_by_task() -> None:
    tally = Tally({f"t{n}": None for n in range(60)})
    for n in range(60):
        tally.add(graded("a", f"t{n}", value=float(n % 2)))
        tally.add(graded("b", f"t{n}", value=float(n % 2), attempts=2 if n < 12 else 1))
    found = known(report_retries([side("a", tally), side("b", tally)]))
    p = found.variants[1].rate_p
    assert p is not None
    assert p < 0.001
    assert found.notes == (f"b: its retry rate differs from a's (p = {p:.3g})",)


def test_all_retries_of_a_task_together_are_one_piece_of_evidence() -> None:
    tally = Tally({f"t{n}": None for n in range(30)})
    for n in range(30):
        for repl_idx in range(10):
            tally.add(graded("a", f"t{n}", repl_idx, value=1.0))
            tally.add(graded("b", f"t{n}", repl_idx, value=1.0, attempts=2 if n < 2 else 1))
    # 20 of 300 against none would be p < 0.001 if trials were independent.
    found = known(report_retries([side("a", tally), side("b", tally)])).variants[1].rate_p
    assert found is not None
    assert found > 0.1


def test_retried_trials_that_pass_more_often_within_tasks_are_noted() -> None:
    tally = Tally({f"t{n}": None for n in range(30)})
    for n in range(30):
        tally.add(graded("a", f"t{n}", 0, value=1.0, attempts=2))
        tally.add(graded("a", f"t{n}", 1, value=float(n % 5 == 0)))
    (note,) = known(report_retries([side("a", tally)])).notes
    assert note.startswith("a: retried trials of a task end otherwise than its others")


def test_a_move_that_equals_the_margin_but_for_rounding_is_bounded() -> None:
    tally = Tally({f"t{n}": None for n in range(50)})
    for n in range(50):
        tally.add(graded("a", f"t{n}", value=1.0, attempts=1 + (n == 0)))
    figures = compute_all(tally, {"a": 50})
    found = report_retries(list(zip(make_arms(tally, {"a": 50}), figures, strict=True)))
    assert found is not None
    assert (found.variants[0].move or 0.0) > 0.02  # 1 - 0.98 in binary
    assert found.answer == "bounded"
