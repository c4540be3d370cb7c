import pytest

from labrunner.policy.causes import CONSEQUENCES
from labrunner.records.cause import Cause
from labrunner.records.completion import Failed
from labrunner.runner.sitting.course import Course, Tallies
from labrunner.runner.sitting.stopping import GaveUp
from tests.kit.builders import make_policy


@pytest.mark.parametrize("cause", Cause)
def test_an_error_counts_towards_the_threshold_as_the_table_of_causes_says(cause: Cause) -> None:
    tallies = Tallies(planned=10)

    tallies.count_error(cause)

    assert tallies.errors == 1
    assert tallies.is_over_threshold(make_policy(fail_on_error=True)) is CONSEQUENCES[cause].counted


def test_the_error_that_is_one_too_many_ends_the_run_and_says_which_trial_it_was() -> None:
    course = Course(tallies=Tallies(planned=10))
    policy = make_policy(fail_on_error=1.0)

    course.count_error(Failed(cause=Cause.SETUP, reason="a", message="first"), "t1", policy)
    assert course.stop.reason is None
    course.count_error(Failed(cause=Cause.SETUP, reason="a", message="second"), "t2", policy)

    assert isinstance(course.stop.reason, GaveUp)
    assert course.stop.reason.error.trial_id == "t2"
    assert course.tallies.first_error is not None
    assert course.tallies.first_error.trial_id == "t1"
