"""Whom the calls of an attempt blame: every way a call can end, and which of many decides."""

from collections.abc import Sequence
from typing import get_args

import pytest

from labrunner.policy.call_blame import Saying, find_blame, find_cap, read_call
from labrunner.records.cause import Cause
from labrunner.records.facts.model_call import GATEWAY_ENDED, CallCap, CallEnd, CallError, CallRow, CallTry
from tests.kit.gateway.callrows import make_row

TRIED = (CallTry(started_at="2026-01-05T00:00:00.000Z", status=529, waited_s=1.0),)


def failed(status: int, kind: str | None = None) -> CallRow:
    return make_row(end="error", status=status, error=CallError(kind=kind, message="told"))


UNPRICED = make_row(end="declined", status=402, error=CallError(kind="no_price", message="told"))
MISSED = make_row(end="missed", status=404, error=CallError(kind="replay_miss", message="told"))
UNKNOWN = failed(404, "not_found_error")
CUT = make_row(end="cut", status=None, error=CallError(kind=GATEWAY_ENDED, message="told"))
CALLS: dict[str, tuple[CallRow, Saying]] = {
    "an answer": (make_row(), "answered"),
    "an answer after tries": (make_row(tries=TRIED), "answered"),
    "no answer": (make_row(end="unreachable", status=502), "provider"),
    "silence": (make_row(end="unreachable", status=504), "provider"),
    "an answer that broke off": (make_row(end="cut"), "provider"),
    "a client that left": (make_row(end="client_gone", status=None), "nothing"),
    "a client that left after tries": (make_row(end="client_gone", status=None, tries=TRIED), "provider"),
    "what is not passed on": (make_row(end="declined", status=400), "agent"),
    "a model without a price": (UNPRICED, "unpriced"),
    "a call that was not recorded": (MISSED, "recording"),
    "a cap": (make_row(end="capped", status=402), "agent"),
    "too many requests": (failed(429, "rate_limit_error"), "provider"),
    "a quota that is used up": (failed(429, "insufficient_quota"), "account"),
    "an error inside": (failed(500), "provider"),
    "overload": (failed(529, "overloaded_error"), "provider"),
    "a timeout of theirs": (failed(408), "provider"),
    "a wrong key": (failed(401, "authentication_error"), "account"),
    "no money": (failed(402), "account"),
    "no permission": (failed(403, "permission_error"), "account"),
    "a bad request": (failed(400, "invalid_request_error"), "agent"),
    "an unknown model": (UNKNOWN, "unknown"),
    "a list that is not there": (make_row(purpose="models", end="error", status=404), "agent"),
    "what a script has no answer for": (failed(404, "script_miss"), "agent"),
    "a gateway that died": (CUT, "gateway"),
    "a request too large": (failed(413, "request_too_large"), "agent"),
    "overload within an answer": (failed(200, "overloaded_error"), "provider"),
    "an error without a word within an answer": (make_row(end="error", status=200), "provider"),
    "a bad request, found out late": (failed(200, "invalid_prompt"), "agent"),
    "an error of which nothing is known": (make_row(end="error", status=None), "provider"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_says_whose_fault_it_was(name: str) -> None:
    call, saying = CALLS[name]
    assert read_call(call) == saying


def test_every_end_of_a_call_is_in_the_table() -> None:
    assert {call.end for call, _ in CALLS.values()} == set(get_args(CallEnd))


@pytest.mark.parametrize("end", get_args(CallEnd))
def test_every_status_of_every_end_says_something(end: CallEnd) -> None:
    said = {read_call(make_row(end=end, status=status)) for status in range(100, 600)}
    assert said <= set(get_args(Saying))


ANSWER, DOWN, GONE = make_row(), failed(529, "overloaded_error"), make_row(end="client_gone", status=None)
REFUSED, BAD = failed(401, "authentication_error"), failed(400)


@pytest.mark.parametrize(
    ("calls", "cause"),
    [
        ([], None),
        ([GONE], None),
        ([ANSWER], None),
        ([DOWN], Cause.PROVIDER),
        ([ANSWER, DOWN], Cause.PROVIDER),
        ([DOWN, ANSWER], None),
        ([DOWN, BAD], None),
        ([BAD, DOWN], Cause.PROVIDER),
        ([DOWN, GONE], Cause.PROVIDER),
        ([ANSWER, GONE], None),
        ([DOWN, REFUSED], Cause.ACCOUNT),
        ([REFUSED, DOWN], Cause.PROVIDER),
        ([DOWN, make_row(end="capped", status=402)], None),
        ([UNPRICED], Cause.ACCOUNT),
        ([ANSWER, UNPRICED], None),
        ([MISSED, DOWN, ANSWER], Cause.REPLAY),
        ([UNKNOWN], Cause.ACCOUNT),
        ([UNKNOWN, ANSWER, UNKNOWN], None),
        ([ANSWER, CUT], Cause.SANDBOX),
        ([CUT, ANSWER], None),
    ],
)
def test_the_last_call_that_says_anything_decides(calls: Sequence[CallRow], cause: Cause | None) -> None:
    blame = find_blame(calls)
    assert (blame.cause if blame else None) == cause


def test_an_account_is_blamed_in_any_case_only_if_no_call_was_answered() -> None:
    alone, later = find_blame([REFUSED, REFUSED]), find_blame([ANSWER, REFUSED])
    assert alone is not None
    assert later is not None
    assert (alone.holds_in_any_case, later.holds_in_any_case) == (True, False)


def test_a_model_that_nobody_knows_is_named_though_its_agent_says_that_all_went_well() -> None:
    blame = find_blame([UNKNOWN])
    assert blame is not None
    assert blame.holds_in_any_case
    assert blame.message.startswith(f"{UNKNOWN.provider} knows no model {UNKNOWN.model!r}: ")


def test_a_message_names_the_model_the_status_and_the_tries() -> None:
    call = make_row(
        end="error", status=529, tries=TRIED, error=CallError(kind="overloaded_error", message="Overloaded")
    )
    blame = find_blame([ANSWER, call])
    assert blame is not None
    assert blame.reason == "provider_error"
    assert blame.message == (
        "its last call of claude (m), of 2 in all, failed: 529, overloaded_error, Overloaded, "
        "after 1 more that failed"
    )


def test_the_first_cap_that_refused_a_call_is_found() -> None:
    first, second = CallCap(limit="tokens", whose="attempt"), CallCap(limit="cost", whose="attempt")
    calls = [ANSWER, make_row(end="capped", cap=first), make_row(end="capped", cap=second)]
    assert find_cap(calls) == first
    assert find_cap([ANSWER]) is None
