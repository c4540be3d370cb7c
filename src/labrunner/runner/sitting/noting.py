"""What the store keeps of attempts under way: enough for the next owner of the run to take them up.

Rules: notes about an attempt that goes on without us are durable before it acts; others may be stored later.
When an outage pauses the run is noted, too, for people.
"""

from datetime import UTC, datetime

import msgspec

from labrunner.policy.breaker import Breaker
from labrunner.records.barrier import BarrierNote
from labrunner.records.encoding.canonical import stamp
from labrunner.records.facts.outage_note import OutageEnd, OutageNote
from labrunner.runner.sitting.ended import EndedAttempt
from labrunner.runner.sitting.places import Places
from labrunner.store.buffering.buffer import Event
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import Assignment


class StoreNotes:
    """Notes what attempts of a sitting tell."""

    def __init__(self, writer: RunWriter, places: Places) -> None:
        """Take the store, and the places that attempts give up."""
        self._writer = writer
        self._places = places
        self._outliving: set[str] = set()

    def expect(self, assignment: Assignment, *, outlives_runner: bool) -> None:
        """Hear of an attempt before anything is noted of it."""
        if outlives_runner:
            self._outliving.add(assignment.token)

    def forget(self, assignment: Assignment) -> None:
        """Nothing more will come of an attempt: its place is free."""
        self._outliving.discard(assignment.token)
        self._places.leave(assignment.token)

    async def dispatched(self, assignment: Assignment) -> None:
        """Note an attempt before its sandbox is made."""
        await self._writer.note_dispatch(
            assignment.token,
            assignment.slot.schedule_idx,
            assignment.trial_id,
            assignment.attempt,
            durable=assignment.token in self._outliving,
        )

    def placed(self, token: str, node: str) -> None:
        """Note which node has an attempt: for people, so nobody waits for it."""
        self._writer.note_node(token, node)

    async def failed(self, ended: EndedAttempt) -> None:
        """Keep how an attempt failed until its trial is final."""
        await self._writer.note_failed(ended.assignment.token, msgspec.json.encode(ended.completion))

    async def cut_off(self, ended: EndedAttempt) -> None:
        """Forget an attempt: its slot is owed as if it had not been tried."""
        await self._writer.note_cut_off(ended.assignment.token)

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        """Note that an agent has ended: its slot can be graded without running it again."""
        await self._writer.note_barrier(token, msgspec.json.encode(note), durable=token in self._outliving)

    async def grader_starting(self, token: str) -> None:
        """Note that a workspace may have been seen by a grader."""
        await self._writer.note_grader_started(token, durable=token in self._outliving)

    def sandbox_gone(self, token: str) -> None:
        """Let the next attempt start, while this one's files are collected."""
        self._places.free(token)

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        """Keep an event of an attempt under way."""
        self._writer.put_event(
            Event(trial_id=assignment.trial_id, attempt=assignment.attempt, seq=seq, json=line)
        )


class OutageNotes:
    """Notes when the breaker opens and closes."""

    def __init__(self, writer: RunWriter, breaker: Breaker[EndedAttempt]) -> None:
        """Take the store, and whom to watch."""
        self._writer = writer
        self._breaker = breaker
        self._noted_at: float | None = None
        """When the outage began that is noted as under way, by the breaker's clock."""
        self._under_way: OutageNote | None = None

    async def follow(self) -> None:
        """Note what has changed since the last time. Asked after each attempt's end."""
        if self._breaker.opened_at != self._noted_at:
            self._noted_at, cause = self._breaker.opened_at, self._breaker.cause
            noted = self._end("answered")
            if self._noted_at is not None and cause is not None:
                self._under_way = OutageNote(cause=cause, began_at=stamp(datetime.now(UTC)))
                noted.append(self._under_way)
            for each in noted:
                await self._writer.note_outage(each)

    async def leave(self) -> None:
        """Note that the run ends, with an outage that is not over."""
        for each in self._end("run_ended"):
            await self._writer.note_outage(each)

    def _end(self, end: OutageEnd) -> list[OutageNote]:
        ended, self._under_way = self._under_way, None
        if ended is None:
            return []
        return [msgspec.structs.replace(ended, ended_at=stamp(datetime.now(UTC)), end=end)]
