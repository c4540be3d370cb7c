"""One connection that an attempt asks for, and the event that is made of it.

Rule: however it ends, its event is written once, and before the client knows of a refusal.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from labrunner.experiment.allowlist import Way
from labrunner.files.uninterrupted import wait_out
from labrunner.gateway.hosts.destination import Destination, write_host
from labrunner.gateway.hosts.visitor import Visitor
from labrunner.records.encoding.canonical import stamp
from labrunner.records.facts.door_event import GATEWAY_ENDED, DoorEnd, DoorEvent, DoorReason

_LONGEST: Final = 500


class Turned(Exception):
    """A connection that is not made, or does not go on; with what the client is told."""

    def __init__(self, reason: DoorReason, status: int, message: str, *, end: DoorEnd = "refused") -> None:
        """Say why."""
        self.reason = reason
        self.status = status
        self.end = end
        super().__init__(message)


@dataclass(slots=True, kw_only=True)
class Passage:
    """What is known of a connection while it goes on."""

    visitor: Visitor
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    way: Way | None = None
    host: str | None = None
    port: int | None = None
    address: str | None = None
    sent: int = 0
    received: int = 0
    hides_name: bool = False
    turned: Turned | None = None
    place: int | None = None
    """Where it is noted while it is under way."""
    is_closed: bool = False

    def aim(self, target: Destination) -> None:
        """Note where it should go."""
        self.way, self.host, self.port = target.way, write_host(target.host), target.port

    def begin(self) -> None:
        """Note it before anything passes, as it stands if nobody writes its end. Raises StoreError."""
        told = "the gateway ended while this connection was under way: how much passed is not known"
        event = replace(self._make_event(), end="failed", reason=GATEWAY_ENDED, message=told)
        self.place = self.visitor.journal.begin(event)

    async def close(self) -> None:
        """Write the event, once; durable when this returns. Raises StoreError."""
        if self.is_closed:
            return
        self.is_closed = True
        write, event = self.visitor.journal.write, self._make_event()
        writing = asyncio.ensure_future(asyncio.to_thread(write, event, self.place))
        cancelled = await wait_out(writing)
        writing.result()
        if cancelled is not None:
            raise cancelled

    def _make_event(self) -> DoorEvent:
        ended, turned = datetime.now(UTC), self.turned
        return DoorEvent(
            schema_version="door_event_v1",
            ids=self.visitor.ids,
            attempt=self.visitor.attempt,
            ordinal=0,  # the journal counts
            phase=self.visitor.phase,
            way=self.way,
            host=self.host,
            port=self.port,
            address=self.address,
            end=turned.end if turned else "closed",
            reason=turned.reason if turned else None,
            message=str(turned)[:_LONGEST] if turned else None,
            started_at=stamp(self.started),
            ended_at=stamp(ended),
            seconds=round((ended - self.started).total_seconds(), 3),
            sent=self.sent,
            received=self.received,
            hides_name=self.hides_name,
        )
