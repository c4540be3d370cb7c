"""Events of a run's trials: what agents appended to their own file, and the transcripts of Python tasks.

Rules: an agent's file is the agent's: it is read without following links, up to a cap, and a line that is no
JSON is kept as text. A line without its end is still being written, and left for the next reader.
"""

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import DamagedRun, StoreError
from labrunner.files.strangers.hostile import Refusal, read_plain
from labrunner.records.completion import FileRef
from labrunner.store.buffering.buffer import read_live
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.layout import RunPaths
from labrunner.store.reading.survey import Survey, read_pieces, survey

NAME: Final = "events.jsonl"
LOGGED: Final = f"state/{NAME}"
CAP: Final = 64 * 2**20
_log: Final = logging.getLogger(__name__)


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of one attempt, in the order in which it was written."""

    run_id: str
    trial_id: str
    attempt: int
    seq: int
    event: msgspec.Raw


class _EventsOfAttempt(msgspec.Struct):
    attempt: int
    logs: tuple[FileRef, ...] = ()


class _Ids(msgspec.Struct):
    trial_id: str


class _Timing(msgspec.Struct):
    ids: _Ids
    attempts: tuple[_EventsOfAttempt, ...]


class _WaitingEvents(msgspec.Struct):
    timing: _Timing


_timings: Final = msgspec.json.Decoder(_Timing)
_waiting: Final = msgspec.json.Decoder(_WaitingEvents)


def read_events(paths: RunPaths) -> Iterator[EventRow]:
    """Every event: those of finished attempts, then those of attempts under way."""
    with survey(paths) as seen:
        finished = set()
        for trial_id, attempt in _finished(seen):
            finished.add((trial_id, attempt.attempt))
            if any(log.path in {LOGGED, TRANSCRIPT} for log in attempt.logs):
                events = read_attempt_events(paths.attempt(trial_id, attempt.attempt))
                yield from _number(events, seen.run_id, trial_id, attempt.attempt)
        yield from _read_live(paths, seen.run_id, finished)


def iter_attempt_logs(seen: Survey) -> Iterator[tuple[str, int, tuple[FileRef, ...]]]:
    """Attempts of finished trials: the trial, the attempt's number, and the logs that its row names."""
    for trial_id, attempt in _finished(seen):
        yield trial_id, attempt.attempt, attempt.logs


def read_attempt_events(folder: Path) -> Iterator[msgspec.Raw]:
    """The events that lie in one attempt's folder: its transcript's, then those that its agent left."""
    yield from read_transcript(folder)
    yield from read_agent_events(folder)


def read_agent_events(folder: Path) -> Iterator[msgspec.Raw]:
    """The events that an attempt's agent left."""
    yield from _read_lines(read_plain(folder / "state", NAME, cap=CAP))


def read_transcript(folder: Path) -> Iterator[msgspec.Raw]:
    """The events of a Python task's attempt."""
    yield from _read_lines(read_plain(folder, TRANSCRIPT, cap=CAP))


def _read_lines(data: bytes | Refusal) -> Iterator[msgspec.Raw]:
    if isinstance(data, Refusal):
        return
    *whole, last = data.split(b"\n")
    for line in (*whole, last) if _is_json(last) else whole:
        if line.strip():
            yield msgspec.Raw(line if _is_json(line) else msgspec.json.encode(line.decode(errors="replace")))


def _finished(seen: Survey) -> Iterator[tuple[str, _EventsOfAttempt]]:
    for timing in _timings_of(seen):
        for attempt in timing.attempts:
            yield timing.ids.trial_id, attempt


def _timings_of(seen: Survey) -> Iterator[_Timing]:
    try:
        rows = (
            row for piece in read_pieces(seen.paths.timings, None) for row in _timings.decode_lines(piece)
        )
        yield from islice(rows, seen.committed)
        for kept in seen.waiting:
            yield _waiting.decode(kept.payload).timing
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {seen.paths.timings}: {error}; try: lab verify") from error


def _read_live(paths: RunPaths, run_id: str, finished: set[tuple[str, int]]) -> Iterator[EventRow]:
    try:
        notes, events = read_live(paths.buffer)
    except StoreError as error:
        _log.warning("events of trials under way can't be shown: %s", error)
        return
    for note in notes:
        if (note.trial_id, note.attempt) not in finished:
            left = read_agent_events(paths.attempt(note.trial_id, note.attempt))
            yield from _number(left, run_id, note.trial_id, note.attempt)
    for event in events:
        if (event.trial_id, event.attempt) not in finished:
            yield EventRow(
                run_id=run_id,
                trial_id=event.trial_id,
                attempt=event.attempt,
                seq=event.seq,
                event=msgspec.Raw(event.json),
            )


def _number(events: Iterator[msgspec.Raw], run_id: str, trial_id: str, attempt: int) -> Iterator[EventRow]:
    for seq, event in enumerate(events):
        yield EventRow(run_id=run_id, trial_id=trial_id, attempt=attempt, seq=seq, event=event)


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True
