"""Attempts under way as the buffer knows them, for readers: one short look that costs the owner nothing."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.buffer import Event, connect_read_only, select_attempts
from labrunner.store.buffering.faults import using

_LAST_EVENTS: Final = 50
LastEvents = Mapping[tuple[str, int], tuple[bytes, ...]]
"""By trial and attempt: the first event and the last ones, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptsSeen:
    """Attempts as they are at one moment."""

    notes: tuple[AttemptNote, ...]
    finished: frozenset[int]
    """Slots that wait in the buffer."""
    last_events: LastEvents


def look_at_attempts(path: Path) -> AttemptsSeen:
    """Which attempts are under way at this moment, for readers, without going through their transcripts.

    Raises StoreError when it can't be read.
    """
    if not path.exists():
        return AttemptsSeen(notes=(), finished=frozenset(), last_events={})
    with using(path):
        connection = connect_read_only(path)
        try:
            connection.execute("BEGIN")
            notes = tuple(select_attempts(connection))
            slots = connection.execute("SELECT schedule_idx FROM completions")
            return AttemptsSeen(
                notes=notes,
                finished=frozenset(idx for (idx,) in slots),
                last_events={
                    (note.trial_id, note.attempt): tuple(_select_ends(connection, note)) for note in notes
                },
            )
        finally:
            connection.close()


def read_events_after(path: Path, trial_id: str, attempt: int, seq: int) -> list[Event]:
    """Events of one attempt under way that came after this one, for readers. At most a thousand at a time."""
    if not path.exists():
        return []
    with using(path):
        connection = connect_read_only(path)
        try:
            rows = connection.execute(
                "SELECT seq, json FROM events WHERE trial_id = ? AND attempt = ? AND seq > ? "
                "ORDER BY seq LIMIT 1000",
                (trial_id, attempt, seq),
            )
            return [Event(trial_id=trial_id, attempt=attempt, seq=number, json=data) for number, data in rows]
        finally:
            connection.close()


def last_event(path: Path, trial_id: str, attempt: int) -> int:
    """The number of an attempt's last event so far; -1 where there is none."""
    if not path.exists():
        return -1
    with using(path):
        connection = connect_read_only(path)
        try:
            (seq,) = connection.execute(
                "SELECT max(seq) FROM events WHERE trial_id = ? AND attempt = ?", (trial_id, attempt)
            ).fetchone()
            return -1 if seq is None else int(seq)
        finally:
            connection.close()


def _select_ends(connection: sqlite3.Connection, note: AttemptNote) -> Iterator[bytes]:
    rows = connection.execute(
        "SELECT json FROM events WHERE trial_id = ?1 AND attempt = ?2 AND (seq = 0 OR seq > ("
        "SELECT max(seq) FROM events WHERE trial_id = ?1 AND attempt = ?2) - ?3) ORDER BY seq",
        (note.trial_id, note.attempt, _LAST_EVENTS),
    )
    return (data for (data,) in rows)
