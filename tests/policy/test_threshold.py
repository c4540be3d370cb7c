import pytest

from labrunner.policy.threshold import is_over


@pytest.mark.parametrize(
    ("fail_on_error", "errors", "planned", "over"),
    [
        (True, 0, 10, False),
        (True, 1, 10, True),
        (False, 10, 10, False),
        (0.1, 1, 10, False),
        (0.1, 2, 10, True),
        (0.1, 3, 30, False),
        (0.1, 4, 30, True),
        (0.3, 3, 10, False),
        (0.29, 29, 100, False),
        (0.29, 30, 100, True),
        (1, 1, 10, False),
        (1, 2, 10, True),
        (1.0, 2, 10, True),
        (5, 5, 10, False),
        (5, 6, 10, True),
        (2.5, 2, 10, False),
        (2.5, 3, 10, True),
    ],
)
def test_a_run_fails_only_when_strictly_more_errors_than_tolerated(
    fail_on_error: bool | float, errors: int, planned: int, over: bool
) -> None:
    assert is_over(fail_on_error, errors=errors, planned=planned) is over
