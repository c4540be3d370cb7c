"""What happened at an attempt's door to hosts: lines beside an attempt.

Rules: no path, no query and no value of a header stands in here. What happens again and again is counted, not
written each time: the sums of `times`, `sent` and `received` are those of all that happened.
"""

from typing import Final, Literal

import msgspec

from labrunner.records.encoding.ids import Ids, Index, Ordinal

DoorEnd = Literal["closed", "refused", "failed"]
"""How it ended: a connection that was made, and is over; one that was not allowed; one that was allowed, and
could not be made or was broken off."""
DoorReason = Literal[
    "bad_request",
    "not_allowed",
    "port_not_allowed",
    "address_not_allowed",
    "private_address",
    "not_tls",
    "other_name",
    "other_host",
    "upgrade",
    "too_many",
    "unknown_name",
    "unreachable",
    "timeout",
    "cut",
    "bad_answer",
    "gateway_ended",
]
"""Why it was refused (`bad_request` to `too_many`), or failed (the rest)."""
GATEWAY_ENDED: Final[DoorReason] = "gateway_ended"
"""The gateway's process died with it: how much had passed is not known."""


class DoorEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of an attempt's `doors.jsonl`: a connection, refused or over."""

    schema_version: Literal["door_event_v1"]
    ids: Ids
    attempt: Ordinal
    ordinal: Index
    """The line's number within its attempt, from 0."""
    phase: str
    """Who asked: `setup`, `agent` or `grader`."""
    way: Literal["tunnel", "http"] | None = None
    """CONNECT, or a plain http request. Left out for what is neither."""
    host: str | None = None
    """As it was asked for. Left out where it could not be read, and where a line counts many hosts."""
    port: int | None = None
    address: str | None = None
    """Where the connection went."""
    end: DoorEnd
    reason: DoorReason | None = None
    message: str | None = None
    """What the client was told."""
    started_at: str
    ended_at: str
    seconds: float = 0.0
    sent: Index = 0
    """Bytes from the sandbox."""
    received: Index = 0
    """Bytes to the sandbox."""
    hides_name: bool = False
    """Whether the greeting of TLS has an encrypted part, in which another name may stand."""
    times: Ordinal = 1
    """How often it happened since the last line like this one."""
