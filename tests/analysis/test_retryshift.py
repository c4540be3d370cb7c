import random
from dataclasses import replace

import msgspec
import pytest

from labrunner.analysis.interval import Interval
from labrunner.analysis.measure import choose_measure
from labrunner.analysis.retryshift import CAUTION, Headline, RetryShift, VariantShift, report_retries
from labrunner.analysis.tally import Tally
from tests.analysis.arms import make_arm
from tests.analysis.trial_rows import failed, graded

TRUE_RATE, ERROR_IF_FAILING, ERROR_IF_PASSING = 0.40, 0.15, 0.02


def headline(name: str, tally: Tally, *, half: float = 0.05) -> Headline:
    variant = tally.variants[name]
    cells = variant.cells.values()
    observed = sum(cell.passed / cell.graded for cell in cells if cell.graded) / len(cells)
    interval = Interval(
        low=observed - half,
        high=observed + half,
        method="t over tasks",
        level=0.95,
        tasks=len(cells),
        units=len(cells),
        standard_error=half / 2,
    )
    return Headline(
        variant_id=name, tally=variant, measure=choose_measure(variant), observed=observed, interval=interval
    )


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
    (shift,) = known(report_retries([headline("a", simulate(400, 100))])).variants
    assert shift.headline == pytest.approx(0.4346, abs=0.005)
    assert shift.as_zero == pytest.approx(0.392, abs=0.005)
    assert shift.as_one == pytest.approx(0.392 + 0.098, abs=0.005)
    assert shift.as_zero is not None
    assert shift.as_one is not None
    assert shift.as_zero <= TRUE_RATE <= shift.as_one
    assert shift.rate == pytest.approx(0.098, abs=0.004)


def test_in_that_very_case_outcomes_alone_show_nothing_and_the_report_says_so() -> None:
    report = known(report_retries([headline("a", simulate(100, 40))]))
    assert report.variants[0].within_tasks.p_value is not None
    assert report.variants[0].within_tasks.p_value > 0.05
    assert report.caution == CAUTION
    assert "outcomes alone can't rule out a bias" in CAUTION


def test_a_run_without_retries_has_no_report() -> None:
    tally = Tally({"t0": None})
    tally.add(graded("a", "t0"))
    assert report_retries([headline("a", tally)]) is None


def shift_of(scores: dict[str, list[float | None]], retried: dict[str, list[bool]]) -> VariantShift:
    arm = make_arm("a", scores, retried=retried)
    found = report_retries(
        [
            Headline(
                variant_id="a",
                tally=arm.tally,
                measure=choose_measure(arm.tally),
                observed=0.5,
                interval=None,
            )
        ]
    )
    return known(found).variants[0]


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
    found = known(report_retries([headline("a", tally)])).variants[0]
    assert (found.as_zero, found.as_one, found.left_out) == (0.5, 1.0, 1.0)


def test_a_run_whose_retries_all_ended_in_errors_is_not_called_stable() -> None:
    tally = Tally({"t0": None})
    row = failed("a", "t0", 0)
    tally.add(msgspec.structs.replace(row, attempts=row.attempts * 2))
    blank = replace(headline("a", tally), observed=None, interval=None)
    found = known(report_retries([blank]))
    assert not found.is_stable
    assert found.verdict == "not stable: 1 of 1 trials needed a retry; a: nothing is graded"


def test_retry_rates_that_differ_make_a_run_unstable() -> None:
    tally = Tally({f"t{n}": None for n in range(60)})
    for n in range(60):
        tally.add(graded("a", f"t{n}", value=float(n % 2)))
        tally.add(graded("b", f"t{n}", value=float(n % 2), attempts=2 if n < 12 else 1))
    report = known(report_retries([headline("a", tally, half=1), headline("b", tally, half=1)]))
    assert report.variants[1].rate_p is not None
    assert report.variants[1].rate_p < 0.001
    assert not report.is_stable
    assert report.reasons == (f"b: its retry rate differs from a's (p = {report.variants[1].rate_p:.3g})",)
    assert report.verdict.startswith("not stable: 12 of 120 trials needed a retry; b: its retry rate")


def test_retried_trials_that_pass_more_often_within_tasks_make_a_run_unstable() -> None:
    tally = Tally({f"t{n}": None for n in range(30)})
    for n in range(30):
        tally.add(graded("a", f"t{n}", 0, value=1.0, attempts=2))
        tally.add(graded("a", f"t{n}", 1, value=float(n % 5 == 0)))
    report = known(report_retries([headline("a", tally, half=1)]))
    (reason,) = report.reasons
    assert reason.startswith("a: retried trials of a task end otherwise than its others")


def test_retries_too_many_for_the_interval_make_a_run_unstable() -> None:
    tally = Tally({f"t{n}": None for n in range(40)})
    for n in range(40):
        tally.add(graded("a", f"t{n}", value=float(n % 2), attempts=1 + (n % 4 == 0) + (n % 4 == 1)))
    report = known(report_retries([headline("a", tally, half=0.1)]))
    assert "moves the mean out of its interval (0.250 to 0.750)" in report.verdict


def test_a_few_retries_that_change_nothing_are_stable() -> None:
    tally = Tally({f"t{n}": None for n in range(40)})
    for n in range(40):
        tally.add(graded("a", f"t{n}", value=float(n % 2), attempts=1 + (n < 2)))
    report = known(report_retries([headline("a", tally, half=0.15)]))
    assert (report.is_stable, report.verdict) == (
        True,
        "stable: 2 of 40 trials needed a retry, and nothing moves",
    )
