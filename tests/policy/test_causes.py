import pytest

from labrunner.policy.causes import CONSEQUENCES
from labrunner.policy.retry import FIRST_WAIT_S, LONGEST_WAIT_S, decide_retry
from labrunner.records.cause import Cause


def test_the_table_names_every_cause() -> None:
    assert set(CONSEQUENCES) == set(Cause)


@pytest.mark.parametrize("cause", Cause)
def test_without_retry_on_error_a_failure_is_final(cause: Cause) -> None:
    assert decide_retry(cause, attempt=1, retry_on_error=0, jitter=0.0) is None


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.RUNNER])
def test_a_trial_is_retried_as_often_as_allowed_and_no_more(cause: Cause) -> None:
    assert decide_retry(cause, attempt=3, retry_on_error=3, jitter=0.0) is not None
    assert decide_retry(cause, attempt=4, retry_on_error=3, jitter=0.0) is None


def test_a_bug_of_ours_is_retried_once() -> None:
    assert decide_retry(Cause.RUNNER, attempt=1, retry_on_error=3, jitter=0.0) is not None
    assert decide_retry(Cause.RUNNER, attempt=2, retry_on_error=3, jitter=0.0) is None


@pytest.mark.parametrize("cause", [Cause.SANDBOX, Cause.PROVIDER])
def test_waits_grow_with_jitter_up_to_a_ceiling(cause: Cause) -> None:
    first = decide_retry(cause, attempt=1, retry_on_error=99, jitter=0.0)
    second = decide_retry(cause, attempt=2, retry_on_error=99, jitter=1.0)
    late = decide_retry(cause, attempt=50, retry_on_error=99, jitter=1.0)

    assert first is not None
    assert second is not None
    assert late is not None
    assert first.wait_s == FIRST_WAIT_S / 2
    assert second.wait_s == FIRST_WAIT_S * 2
    assert late.wait_s == LONGEST_WAIT_S


@pytest.mark.parametrize("cause", [Cause.GRADE_ERROR, Cause.SETUP, Cause.SOLVER, Cause.RUNNER])
def test_what_time_does_not_mend_is_retried_at_once(cause: Cause) -> None:
    retry = decide_retry(cause, attempt=1, retry_on_error=1, jitter=1.0)

    assert retry is not None
    assert retry.wait_s == 0
