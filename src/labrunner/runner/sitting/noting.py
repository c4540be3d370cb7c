"""What the store keeps of attempts under way: enough for the next owner of the run to take them up.

Rule: notes about an attempt that goes on without us are durable before it acts; others may be stored later.
"""

import msgspec

from labrunner.records.barrier import BarrierNote
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
