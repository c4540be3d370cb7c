"""What the calls of models say of an agent's end: whose fault it was, and which cap it ran into. Pure.

Rules: facts only: how a call ended, its status, the provider's own word for an error; never its sentences.
The last call that says anything decides, in the order in which calls ended: what failed before an answer
came was got over. A client that left says nothing, unless its provider had failed it before. A call that a
recording should have answered and could not decides before all others: whatever the agent did after it is
not what is replayed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from labrunner.records.cause import Cause
from labrunner.records.facts.model_call import GATEWAY_ENDED, NO_PRICE, SCRIPT_MISS, CallCap, CallRow

Saying = Literal[
    "answered", "provider", "account", "unpriced", "unknown", "recording", "gateway", "agent", "nothing"
]
"""What one call says: the model answered; somebody was at fault; or nothing at all."""
_ACCOUNT_STATUSES: Final = frozenset({401, 402, 403})
_ACCOUNT_KINDS: Final = frozenset({"insufficient_quota", "billing_not_active", "billing_error"})
"""Providers' words for an account that no waiting mends, whatever the status is."""
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
"""Beside 500 and above: trouble that passes with time."""
NOT_FOUND: Final = 404
"""Where a request is sent follows from its dialect: what is not found there is its model."""
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBlame:
    """Whom the calls of an attempt blame, should its agent have ended without success."""

    cause: Cause
    reason: str
    """One machine-readable word."""
    message: str
    holds_in_any_case: bool = False
    """Whether it counts though the agent says that all went well: its model never answered anything."""
    comes_first: bool = False
    """Whether nothing counts that the agent did, or says by its exit status."""


def find_cap(calls: Iterable[CallRow]) -> CallCap | None:
    """The first cap that refused a call."""
    return next((call.cap for call in calls if call.cap is not None), None)


def find_blame(calls: Iterable[CallRow]) -> CallBlame | None:
    """Whom the last call that says anything blames; None where that is the agent, or nobody."""
    last: CallRow | None = None
    was_answered, count = False, 0
    for call in calls:
        count += 1
        saying = read_call(call)
        if saying == "recording":
            return _blame_recording(call)
        was_answered = was_answered or saying == "answered"
        last = last if saying == "nothing" else call
    if last is None:
        return None
    saying = read_call(last)
    if saying == "provider":
        reason = {"unreachable": "provider_unreachable", "cut": "provider_cut"}.get(
            last.end, "provider_error"
        )
        return CallBlame(cause=Cause.PROVIDER, reason=reason, message=_describe(last, count))
    if saying == "gateway":
        return CallBlame(cause=Cause.SANDBOX, reason="gateway", message=_describe(last, count))
    if saying == "unpriced" and not was_answered:
        return CallBlame(
            cause=Cause.ACCOUNT,
            reason="model_without_price",
            message=_describe(last, count),
            holds_in_any_case=True,
        )
    if saying == "unknown" and not was_answered:
        told = f"{last.provider} knows no model {last.model!r}: {_describe(last, count)}"
        return CallBlame(cause=Cause.ACCOUNT, reason="unknown_model", message=told, holds_in_any_case=True)
    if saying == "account":
        return CallBlame(
            cause=Cause.ACCOUNT,
            reason="account_refused",
            message=_describe(last, count),
            holds_in_any_case=not was_answered,
        )
    return None


def _blame_recording(call: CallRow) -> CallBlame:
    told = call.error.message if call.error else "a call is not in the recording"
    return CallBlame(cause=Cause.REPLAY, reason="replay_miss", message=told, comes_first=True)


def is_refusal(status: int | None, kind: str | None) -> bool:
    """Whether an error says that the account at the provider is to blame."""
    return status in _ACCOUNT_STATUSES or kind in _ACCOUNT_KINDS


def read_call(call: CallRow) -> Saying:
    """What one call says."""
    match call.end:
        case "answered":
            return "answered"
        case "cut" if call.error is not None and call.error.kind == GATEWAY_ENDED:
            return "gateway"
        case "unreachable" | "cut":
            return "provider"
        case "client_gone":
            return "provider" if call.tries else "nothing"
        case "declined" if call.error is not None and call.error.kind == NO_PRICE:
            return "unpriced"
        case "missed":
            return "recording"
        case "declined" | "capped":
            return "agent"
        case "error":
            return _read_error(call)
        case _:
            assert_never(call.end)


def _read_error(call: CallRow) -> Saying:
    status, kind = call.status or 0, (call.error.kind if call.error else None) or ""
    if is_refusal(status, kind):
        return "account"
    if status in _PASSING_STATUSES or status >= 500:
        return "provider"
    if status == NOT_FOUND and call.purpose == "generate" and kind != SCRIPT_MISS:
        return "unknown"
    if status >= 400:
        return "agent"
    # An answer had begun, so the request was sound, unless the provider found out late that it was not.
    return "agent" if kind.startswith("invalid_") else "provider"


def _describe(call: CallRow, count: int) -> str:
    model = f" ({call.model})" if call.model else ""
    told = [str(call.status)] if call.status is not None else []
    if call.error is not None:
        told += [call.error.kind] if call.error.kind else []
        told += [call.error.message[:_LONGEST]]
    tries = f", after {len(call.tries)} more that failed" if call.tries else ""
    end = {"unreachable": "had no answer", "cut": "was cut off", "client_gone": "had no answer"}.get(
        call.end, "failed"
    )
    said = f": {', '.join(told)}" if told else ""
    return f"its last call of {call.provider}{model}, of {count} in all, {end}{said}{tries}"
