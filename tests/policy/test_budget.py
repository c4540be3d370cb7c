from collections.abc import Mapping

import pytest

from labrunner.policy.budget import (
    HEARD_ENOUGH,
    Budget,
    Spending,
    describe_unheard,
    describe_used_up,
    find_unheard,
    find_used_up,
)


def spend(*usages: Mapping[str, float | int], is_graded: bool = True) -> Spending:
    spending = Spending()
    for usage in usages:
        spending.add(usage, is_graded=is_graded)
    return spending


@pytest.mark.parametrize(
    ("budget", "usages", "used_up"),
    [
        (Budget(cost_usd=None, tokens=None), [{"cost_usd": 1e12, "tokens": 10**12}], ()),
        (Budget(cost_usd=2.0, tokens=None), [], ()),
        (Budget(cost_usd=2.0, tokens=None), [{"cost_usd": 1.999999}], ()),
        (Budget(cost_usd=2.0, tokens=None), [{"cost_usd": 2}], ("cost_usd",)),
        (Budget(cost_usd=2.0, tokens=None), [{"cost_usd": 2.03}], ("cost_usd",)),
        (Budget(cost_usd=1, tokens=None), [{"cost_usd": 0.1}] * 9, ()),
        (Budget(cost_usd=1, tokens=None), [{"cost_usd": 0.1}] * 10, ("cost_usd",)),
        (Budget(cost_usd=0.3, tokens=None), [{"cost_usd": 0.1}, {"cost_usd": 0.2}], ("cost_usd",)),
        (Budget(cost_usd=1e-9, tokens=None), [{"cost_usd": 0}], ()),
        (Budget(cost_usd=1e-9, tokens=None), [{"cost_usd": 1e-9}], ("cost_usd",)),
        (Budget(cost_usd=None, tokens=1000), [{"tokens": 999, "cost_usd": 50}], ()),
        (Budget(cost_usd=None, tokens=1000), [{"tokens": 999}, {"tokens": 1}], ("tokens",)),
        (Budget(cost_usd=1, tokens=1000), [{"tokens": 1000, "cost_usd": 0.5}], ("tokens",)),
        (Budget(cost_usd=1, tokens=1000), [{"tokens": 1000, "cost_usd": 1.0}], ("cost_usd", "tokens")),
        (Budget(cost_usd=1, tokens=None), [{"cpu_s": 100.0, "requests": 7}], ()),
    ],
)
def test_a_limit_is_reached_when_as_much_or_more_is_spent(
    budget: Budget, usages: list[Mapping[str, float | int]], used_up: tuple[str, ...]
) -> None:
    assert find_used_up(budget, spend(*usages)) == used_up


def test_failed_attempts_count_like_any_other() -> None:
    spending = spend({"cost_usd": 2.0}, is_graded=False)
    assert find_used_up(Budget(cost_usd=2, tokens=None), spending) == ("cost_usd",)


def test_the_end_is_told_with_limit_amount_and_attempts() -> None:
    budget = Budget(cost_usd=2.0, tokens=1500)
    spending = spend(*[{"cost_usd": 0.29, "tokens": 1234}] * 7)
    assert describe_used_up(budget, spending, ["cost_usd"]) == (
        "the budget of 2 USD is used up: 2.03 spent in 7 attempts"
    )
    assert describe_used_up(budget, spending, ["cost_usd", "tokens"]) == (
        "the budget of 2 USD is used up: 2.03 spent in 7 attempts; "
        "the budget of 1,500 tokens is used up: 8,638 spent in 7 attempts"
    )


def test_attempts_that_reported_nothing_are_told_of() -> None:
    spending = spend({"tokens": 5}, {}, {})
    told = describe_used_up(Budget(cost_usd=None, tokens=5), spending, ["tokens"])
    assert "5 spent in 3 attempts, of which 2 did not report any" in told


def test_tiny_amounts_are_not_told_as_nothing() -> None:
    told = describe_used_up(Budget(cost_usd=1e-9, tokens=None), spend({"cost_usd": 2e-9}), ["cost_usd"])
    assert told.startswith("the budget of 1e-9 USD is used up: 2e-9 spent in 1 attempt")


@pytest.mark.parametrize(
    ("graded", "planned", "unheard"),
    [
        (0, 1, ()),
        (1, 1, ("cost_usd",)),
        (HEARD_ENOUGH - 1, 100, ()),
        (HEARD_ENOUGH, 100, ("cost_usd",)),
        (HEARD_ENOUGH - 1, HEARD_ENOUGH - 1, ("cost_usd",)),
    ],
)
def test_silence_is_told_once_enough_attempts_were_heard(
    graded: int, planned: int, unheard: tuple[str, ...]
) -> None:
    budget, spending = Budget(cost_usd=2.0, tokens=9), spend(*[{"tokens": 1}] * graded)
    assert find_unheard(budget, spending, planned=planned) == unheard


def test_failed_attempts_are_not_expected_to_report() -> None:
    spending = spend(*[{}] * 10, is_graded=False)
    assert find_unheard(Budget(cost_usd=2.0, tokens=None), spending, planned=100) == ()


def test_one_report_is_enough_to_be_quiet() -> None:
    spending = spend({"cost_usd": 0.0}, *[{}] * 10)
    assert find_unheard(Budget(cost_usd=2.0, tokens=None), spending, planned=100) == ()


def test_without_a_budget_nothing_is_missed() -> None:
    none = Budget(cost_usd=None, tokens=None)
    assert find_unheard(none, spend(*[{}] * 10), planned=10) == ()
    assert describe_unheard(none, ()) == ""


def test_a_limit_that_cannot_hold_is_named() -> None:
    told = describe_unheard(Budget(cost_usd=2.5, tokens=None), ["cost_usd"])
    assert told == "no attempt reports `cost_usd`, so the budget of 2.5 USD will never stop this run"
