"""What is under way in a run right now: which attempts, since when, in which phase.

Rules: everything is read from the run's directory, in one short look, and the owner notices nothing. The
owner's notes are believed first; the attempt's folder and its events tell what they leave open. An agent may
have forged what lies in its folder: a wrong word on a screen is all that this can cost.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from labrunner.errors import StoreError
from labrunner.files.strangers.hostile import open_plain
from labrunner.records.completion import Completion, Failed
from labrunner.records.encoding.canonical import stamp
from labrunner.store.buffering.attempts import AttemptNote, AttemptState
from labrunner.store.buffering.glimpse import LastEvents, look_at_attempts
from labrunner.store.layout import RunPaths
from labrunner.store.rows.journal import read_last_line
from labrunner.store.rows.single_records import read_run

LivePhase = Literal[
    "preparing", "setup", "agent", "at its node", "barrier", "grader", "collecting", "waiting"
]
"""`at its node`: another machine has it, and its agent has not ended; more is not known here. `waiting`: the
last attempt failed, and the trial is to be tried again."""
_WRAPPER: Final[Mapping[str, LivePhase]] = {
    "setup": "setup",
    "gate": "setup",
    "agent": "agent",
    "barrier": "barrier",
    "grader": "grader",
    "graded": "collecting",
}
_LONGEST_NOTE: Final = 4096
_failures: Final = msgspec.json.Decoder(Completion)


class _Event(msgspec.Struct):
    event: str = ""
    at: str | None = None


_events: Final = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """One trial that is under way."""

    schedule_idx: int
    trial_id: str
    attempt: int
    phase: LivePhase
    token: str | None = field(default=None, repr=False)
    """Of its dispatch: what the sandbox knows follows from it, and is masked where the attempt is shown."""
    since: str | None
    """When the phase began; None where nothing tells."""
    began_at: str | None
    """When the attempt began."""
    failed: tuple[Completion, ...] = ()
    """Attempts before it, or, where it waits to be tried again, up to it."""
    node: str | None = None
    """The node of a cluster that carries it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of an attempt besides the owner's note."""

    logs: frozenset[str] = frozenset()
    """Phases that have begun to write logs."""
    is_elsewhere: bool = False
    """Another machine has its folder."""
    wrapper: LivePhase | None = None
    """What a container's first process says."""
    has_folder: bool = False
    is_swept: bool = False
    """Its scratch folders are gone: what is left of it is being collected."""
    events: tuple[str, ...] = ()
    """Kinds of its last events, in order."""
    times: Mapping[str, float | str | None] = field(default_factory=dict)
    """When phases began, as far as that is known."""
    began: float | str | None = None


def read_under_way(paths: RunPaths) -> tuple[UnderWay, ...]:
    """Trials under way, in schedule order; nothing where the buffer can't be read."""
    run_id = read_run(paths).run_id
    try:
        seen = look_at_attempts(paths.buffer)
    except StoreError:
        return ()
    # The journal is read last: what was committed meanwhile is not under way any more.
    line = read_last_line(paths.commits, run_id)
    committed = 0 if line is None else line.schedule_idx + 1
    slots: dict[int, list[AttemptNote]] = {}
    for note in seen.notes:
        if note.schedule_idx >= committed and note.schedule_idx not in seen.finished:
            slots.setdefault(note.schedule_idx, []).append(note)
    return tuple(
        _describe(paths, sorted(notes, key=lambda note: note.attempt), seen.last_events)
        for _, notes in sorted(slots.items())
    )


def judge_phase(state: AttemptState, seen: Evidence) -> LivePhase:
    """Say how far an attempt is."""
    if state == "failed":
        return "waiting"
    if seen.is_swept or "end" in seen.events or seen.wrapper == "collecting":
        return "collecting"
    if state == "grading" or seen.wrapper == "grader" or "scoring" in seen.events:
        return "grader"
    if state == "barrier" or seen.wrapper == "barrier":
        return "barrier"
    # A solver in Python writes no log of its own; what it does becomes events.
    if "agent" in seen.logs or len(seen.events) > 1 or (seen.events and not seen.has_folder):
        return "agent"
    if seen.is_elsewhere:
        return "at its node"
    return "setup" if "setup" in seen.logs else "preparing"


def _describe(paths: RunPaths, notes: list[AttemptNote], last_events: LastEvents) -> UnderWay:
    note = notes[-1]
    failed = tuple(_read_failures(notes))
    if note.state == "failed":
        since: float | str | None = failed[-1].timing.ended_at if failed else None
        phase: LivePhase = "waiting"
        began: float | str | None = failed[-1].timing.started_at if failed else None
    else:
        seen = gather(
            paths.attempt(note.trial_id, note.attempt),
            last_events.get((note.trial_id, note.attempt), ()),
            is_placed=note.node is not None,
        )
        phase = judge_phase(note.state, seen)
        since, began = seen.times.get(phase), seen.began
    return UnderWay(
        schedule_idx=note.schedule_idx,
        trial_id=note.trial_id,
        attempt=note.attempt,
        phase=phase,
        token=note.token,
        since=say_time(since),
        began_at=say_time(began),
        failed=failed,
        node=note.node,
    )


def _read_failures(notes: list[AttemptNote]) -> Iterator[Completion]:
    for note in notes:
        if note.failure is not None:
            try:
                completion = _failures.decode(note.failure)
            except (ValueError, RecursionError):
                continue  # it is told by whoever opens the run
            if isinstance(completion.end, Failed):
                yield completion


def gather(folder: Path, events: tuple[bytes, ...], *, is_placed: bool = False) -> Evidence:
    """Look at an attempt's folder and at its last events; where a node has it there may be no folder yet."""
    told = [_decode_event(line) for line in events]
    if is_placed and not events and not folder.is_dir():
        return Evidence(is_elsewhere=True)
    logs = _names(folder / "logs")
    began = {phase for name in logs for phase in [name.partition(".")[0]]}
    wrapper, wrapper_at = _read_wrapper(folder / "ctl")
    # A folder changes when something new appears in it: the last phase to begin has made the newest log.
    newest = _changed(folder / "logs") if logs else None
    times: dict[str, float | str | None] = {
        phase: newest for phase in ("setup", "agent", "grader") if phase in began
    }
    times |= {event.event: event.at for event in told if event.event in {"scoring", "end"}}
    if told and "agent" not in began:
        times["agent"] = told[0].at
    times["grader"] = times.get("scoring", times.get("grader"))
    times["collecting"] = times.get("end", _changed(folder))
    times["preparing"] = _changed(folder / "in")
    if wrapper is not None:
        times[wrapper] = wrapper_at
    return Evidence(
        logs=frozenset(began),
        wrapper=wrapper,
        has_folder=folder.is_dir(),
        is_swept=folder.is_dir() and not (folder / "scratch").exists() and (folder / "in").exists(),
        events=tuple(event.event for event in told),
        times=times,
        began=_changed(folder / "in" / "task.json") or (told[0].at if told else None),
    )


def _read_wrapper(ctl: Path) -> tuple[LivePhase | None, float | None]:
    """What a container's first process says, the newest note first; that from behind the barrier counts."""
    names = sorted((name for name in _names(ctl) if name.startswith("phase-")), reverse=True)
    for name in (*(name for name in names if "." not in name), "phase"):
        try:
            with open_plain(ctl / name) as file:
                text, at = file.read(_LONGEST_NOTE), os.fstat(file.fileno()).st_mtime
        except OSError:
            continue
        word = text.decode("ascii", errors="replace").partition("\n")[0].removeprefix("phase=")
        if word in _WRAPPER:
            return _WRAPPER[word], at
    return None, None


def _decode_event(line: bytes) -> _Event:
    try:
        return _events.decode(line)
    except (ValueError, RecursionError):
        return _Event()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return []


def _changed(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except OSError:
        return None


def say_time(at: float | str | None) -> str | None:
    """A time as records write it; None for one that no calendar has: whoever owns a file sets its times."""
    if not isinstance(at, float):
        return at
    try:
        return stamp(datetime.fromtimestamp(at, UTC))
    except (ValueError, OverflowError, OSError):
        return None
