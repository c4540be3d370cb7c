import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import labrunner
from labrunner.experiment.authoring.values import BadValue, parse_exit_codes
from labrunner.policy.breaker import Breaker
from labrunner.policy.causes import CONSEQUENCES
from labrunner.policy.pace import PACE
from labrunner.policy.retry import decide_retry
from labrunner.records.cause import Cause

SOURCE = Path(labrunner.__file__).parent
ALLOWED = {SOURCE / "records/cause.py", SOURCE / "policy/causes.py"}


def test_the_table_names_every_cause() -> None:
    assert set(CONSEQUENCES) == set(Cause)


def is_cause(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Cause"


def find_decisions(tree: ast.AST) -> Iterator[int]:
    """Lines where it depends on one cause, or on some of them, what happens: comparisons, cases, lists."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                named = [left, *others]
            case ast.MatchValue(value=value):
                named = [value]
            case ast.Set(elts=items) | ast.Tuple(elts=items) | ast.List(elts=items):
                named = list(items)
            case ast.Dict(keys=keys):
                named = [key for key in keys if key is not None]
            case _:
                continue
        if any(is_cause(each) for each in named):
            yield node.lineno


def test_nothing_beside_the_table_decides_by_cause() -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file not in ALLOWED
        for line in find_decisions(ast.parse(file.read_text()))
    ]

    assert found == []


def test_the_search_for_decisions_finds_each_way_to_write_one() -> None:
    written = """
a = cause is Cause.SETUP
b = cause in {Cause.SETUP, other}
c = (Cause.SETUP, Cause.SANDBOX)
d = {Cause.SETUP: 1}
match cause:
    case Cause.SETUP: pass
fine = Failed(cause=Cause.SETUP)
"""
    assert sorted(set(find_decisions(ast.parse(written)))) == [2, 3, 4, 5, 7]


@pytest.mark.parametrize("cause", Cause)
def test_an_agent_may_blame_what_the_table_says_and_nothing_else(cause: Cause) -> None:
    if CONSEQUENCES[cause].blamable:
        assert parse_exit_codes({4: str(cause)}) == {4: cause}
    else:
        with pytest.raises(BadValue, match="must be one of"):
            parse_exit_codes({4: str(cause)})


@pytest.mark.parametrize("cause", Cause)
def test_the_breaker_watches_what_the_table_says_and_nothing_else(cause: Cause) -> None:
    breaker: Breaker[str] = Breaker(after=1)

    breaker.on_failure(cause, "a", 0.0)

    assert breaker.is_open is CONSEQUENCES[cause].watched


NEVER = (Cause.ACCOUNT, Cause.REPLAY)


@pytest.mark.parametrize("cause", Cause)
def test_without_retry_on_error_a_failure_is_final(cause: Cause) -> None:
    assert decide_retry(cause, attempt=1, retry_on_error=0, jitter=0.0) is None


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause not in {Cause.RUNNER, *NEVER}])
def test_a_trial_is_retried_as_often_as_allowed_and_no_more(cause: Cause) -> None:
    assert decide_retry(cause, attempt=3, retry_on_error=3, jitter=0.0) is not None
    assert decide_retry(cause, attempt=4, retry_on_error=3, jitter=0.0) is None


@pytest.mark.parametrize("cause", NEVER)
def test_what_would_be_the_same_again_is_not_tried_again(cause: Cause) -> None:
    assert decide_retry(cause, attempt=1, retry_on_error=3, jitter=0.0) is None


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
    assert first.wait_s == PACE.first_wait_s / 2
    assert second.wait_s == PACE.first_wait_s * 2
    assert late.wait_s == PACE.longest_wait_s


@pytest.mark.parametrize("cause", [Cause.GRADE_ERROR, Cause.SETUP, Cause.SOLVER, Cause.RUNNER])
def test_what_time_does_not_mend_is_retried_at_once(cause: Cause) -> None:
    retry = decide_retry(cause, attempt=1, retry_on_error=1, jitter=1.0)

    assert retry is not None
    assert retry.wait_s == 0
