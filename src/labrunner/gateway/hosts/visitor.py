"""Whose connections they are, what they may reach, and how long they are waited for."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from labrunner.experiment.allowlist import Address, AllowList
from labrunner.gateway.holders import Holders
from labrunner.gateway.recording.doorjournal import DoorJournal
from labrunner.gateway.serving.wire import ClientPatience
from labrunner.records.encoding.ids import Ids

_MAX_LOOKUPS: Final = 4

Resolve = Callable[[str], Awaitable[Sequence[Address]]]
"""Looks a name up. Raises OSError where there is no such name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """One phase of an attempt, as the door knows it. Its token is in no text that this is shown as."""

    ids: Ids
    attempt: int
    phase: str
    """`setup`, `agent` or `grader`."""
    token: str = field(repr=False)
    """Asked for where a listener is not in a namespace of the attempt's own."""
    allow: AllowList
    journal: DoorJournal
    lookups: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(_MAX_LOOKUPS), repr=False, compare=False
    )
    """Names that it looks up at once."""


Visitors = Holders[Visitor]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostService:
    """What listeners share."""

    resolve: Resolve
    client: ClientPatience = field(default_factory=ClientPatience)
    lookup_s: float = 15.0
    connect_s: float = 15.0
    """For all addresses of a host together."""
    greeting_s: float = 15.0
    """For the whole greeting of TLS."""
    idle_s: float = 600.0
    """How long nothing may pass, in either direction."""
    max_each: int = 128
    """Connections of one attempt at once."""
    max_unheard: int = 64
    """Connections of one listener that have not said whose they are."""
