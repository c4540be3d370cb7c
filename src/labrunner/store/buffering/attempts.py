"""Attempts under way, as the owner knows them, and which of them the buffer does not know yet.

Memory holds what is in flight and no more. A note that is taken back before it was stored costs nothing.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec.structs import replace

AttemptState = Literal["dispatched", "barrier", "grading", "failed"]


class AttemptNote(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known about an attempt when its runner is gone.

    A Struct: every attempt changes its note twice, and these are replaced ten times faster.
    """

    token: str
    schedule_idx: int
    trial_id: str
    attempt: int
    state: AttemptState = "dispatched"
    barrier: bytes | None = None
    """How the agent ended: a `BarrierNote`, encoded."""
    failure: bytes | None = None
    """How the attempt failed: its `Completion`, encoded, until its trial is final."""
    grader_started: bool = False
    node: str | None = None
    """The node of a cluster that carries it out."""


class AttemptBook:
    """Notes by token, and what has changed since the buffer was last written."""

    def __init__(self, stored: Iterable[AttemptNote] = ()) -> None:
        """Begin with what the buffer already holds."""
        self._notes = {note.token: note for note in stored}
        self._stored = set(self._notes)
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._slots: dict[int, list[str]] = {}
        self._refused: dict[int, set[str]] = {}
        for note in self._notes.values():
            self._slots.setdefault(note.schedule_idx, []).append(note.token)

    @property
    def has_changes(self) -> bool:
        """Whether the buffer is behind."""
        return bool(self._changed or self._gone)

    def notes(self) -> tuple[AttemptNote, ...]:
        """Every attempt under way."""
        return tuple(self._notes.values())

    def dispatch(self, note: AttemptNote) -> None:
        """Note an attempt before its sandbox is made."""
        self._notes[note.token] = note
        self._changed.add(note.token)
        self._slots.setdefault(note.schedule_idx, []).append(note.token)

    def place(self, token: str, node: str) -> None:
        """Note which node of a cluster carries an attempt out."""
        self._change(replace(self._find(token), node=node))

    def hold_barrier(self, token: str, payload: bytes) -> None:
        """Note that an attempt's agent has ended, and how."""
        self._change(replace(self._find(token), state="barrier", barrier=payload))

    def start_grader(self, token: str) -> None:
        """Note that a grader may have touched the attempt's workspace."""
        self._change(replace(self._find(token), state="grading", grader_started=True))

    def hold_failure(self, token: str, payload: bytes) -> None:
        """Note that an attempt failed and its trial is tried again: its completion is kept for the row."""
        self._change(replace(self._find(token), state="failed", barrier=None, failure=payload))

    def cut_off(self, token: str) -> AttemptNote | None:
        """Drop an attempt that a crash ended: its number is used again."""
        note = self._notes.pop(token, None)
        self._changed.discard(token)
        if note is not None:
            self._slots[note.schedule_idx].remove(token)
            self._refused.setdefault(note.schedule_idx, set()).add(token)
        if token in self._stored:
            self._gone.add(token)
        return note

    def was_cut_off(self, schedule_idx: int, token: str) -> bool:
        """Whether an attempt of a slot that is still owed was given up: what comes of it comes too late."""
        return token in self._refused.get(schedule_idx, ())

    def forget(self, schedule_idx: int) -> None:
        """Drop every attempt of a slot: it is final."""
        self._refused.pop(schedule_idx, None)
        for token in self._slots.pop(schedule_idx, ()):
            self._notes.pop(token, None)
            self._changed.discard(token)
            if token in self._stored:
                self._gone.add(token)

    def take_changes(self) -> tuple[list[AttemptNote], list[str]]:
        """What to store and what to remove, for a transaction that is about to be made."""
        stored, gone = [self._notes[token] for token in self._changed], list(self._gone)
        self._stored |= self._changed
        self._stored -= self._gone
        self._changed.clear()
        self._gone.clear()
        return stored, gone

    def _find(self, token: str) -> AttemptNote:
        try:
            return self._notes[token]
        except KeyError as error:
            raise ValueError(f"no attempt with token {token} is under way") from error

    def _change(self, note: AttemptNote) -> None:
        self._notes[note.token] = note
        self._changed.add(note.token)
