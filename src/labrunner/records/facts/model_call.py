"""One call of a model, and the bodies that calls are made of: lines beside an attempt.

Rules: no value of a header and no query stands in here; bodies are named by their digest and written once,
whichever calls share them. What a provider did not say is left out, never written as 0.
"""

from typing import Any, Final, Literal

import msgspec

from labrunner.records.encoding.ids import Digest, Ids, Index, Name, Ordinal

CallEnd = Literal["answered", "error", "unreachable", "cut", "client_gone", "declined", "capped", "missed"]
"""How a call ended: with an answer; with an error that the provider told; without any answer; with an answer
that broke off; because the client left; or without being passed on (`declined`, `capped`, and `missed`: a
recording that was to answer it has no such call)."""
TokenBasis = Literal["reported", "counted", "reserved"]
"""Where token counts come from: the provider; what was seen of an answer that broke off; or the bound
that was set aside, where nothing was seen."""
PYTHON: Final = "python"
"""The protocol of a call from a task's own code; which one it takes is the client's matter."""
NO_PRICE: Final = "no_price"
"""Kind of the error of a call that was declined because money is limited, and its model has no price."""
SCRIPT_MISS: Final = "script_miss"
"""Kind of the error of a call for which the script that stands for a model has no answer."""
GATEWAY_ENDED: Final = "gateway_ended"
"""Kind of the error of a call that was cut because the gateway's process ended."""
PIECE: Final = "$body"
"""In a body of a request, `{"$body": digest}` stands for a part that is a body of its own."""


class CallTokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tokens of a call, as they are billed."""

    input: Index
    """All that was read, cached or not."""
    output: Index
    """All that was generated, reasoning too."""
    cache_read: Index = 0
    """Part of `input` that came from the provider's cache."""
    cache_write: Index = 0
    """Part of `input` that was written to the provider's cache."""
    cache_write_1h: Index = 0
    """Part of `cache_write` that is kept for an hour."""
    reasoning: Index = 0
    """Part of `output`."""
    basis: TokenBasis = "reported"
    """Who says so."""


class CallTry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A try that failed and was followed by another one; the client saw nothing of it."""

    started_at: str
    status: int | None = None
    """Left out where no answer came."""
    error: str = ""
    retry_after_s: float | None = None
    """What the provider asked for."""
    waited_s: float
    """Before the next try."""


class CallError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What went wrong, as it was told."""

    kind: str | None = None
    """The provider's own word, or ours where it said nothing."""
    message: str
    retry_after_s: float | None = None


class CallCap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cap that a call would have gone over."""

    limit: Literal["cost", "tokens", "requests"]
    """By the word that `ended_by` has for it."""
    whose: Literal["attempt", "run"]
    """`agent.limits`, or the run's `budget`."""


class CallRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of an attempt's `calls.jsonl`: synced before the client sees the end of the answer."""

    schema_version: Literal["model_call_v1"]
    call_id: Name
    ids: Ids
    attempt: Ordinal
    ordinal: Index
    """The call's number within its attempt, in the order in which calls arrived, from 0."""
    provider: Name
    """The entry of `models:`."""
    protocol: str
    purpose: str
    model: str | None = None
    """As it was asked for."""
    answered_by: str | None = None
    """The model, as the answer names it."""
    streaming: bool = False
    started_at: str
    first_byte_at: str | None = None
    ended_at: str
    end: CallEnd
    status: int | None = None
    """HTTP status that the client got."""
    stop_reason: str | None = None
    tokens: CallTokens | None = None
    cost_usd: float | None = None
    """Left out where the model has no price."""
    price_source: str | None = None
    priced_on: str | None = None
    request: Digest | None = None
    """The body that was sent; where a Python task asked, what was asked, which is in its transcript."""
    answer: Digest | None = None
    """The body that came, not compressed; of a Python task, what the model said, which is there, too."""
    taken_out: tuple[str, ...] = ()
    """Tools and files of the provider that were taken out of the request."""
    tries: tuple[CallTry, ...] = ()
    """Tries before the last one."""
    error: CallError | None = None
    cap: CallCap | None = None
    """Set where a cap kept the call from being passed on."""
    trouble: str | None = None
    """Why the answer could not be understood, where that is so."""
    replayed: Name | None = None
    """The recorded call that answered it: nobody was asked, and tokens and money are what that call took."""


class BodyRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of an attempt's `bodies.jsonl`: a body, or a message that many bodies share."""

    schema_version: Literal["call_body_v1"]
    digest: Digest
    """Of the canonical bytes of a JSON value; of the bytes themselves otherwise."""
    form: Literal["json", "text", "base64", "told"]
    """`told`: an answer by its words alone, because a secret was cut in two in its bytes."""
    body: Any  # any JSON: what was said
    masked: bool = False
    """Secrets in it were masked: its digest is that of what passed, so that calls still name it."""
