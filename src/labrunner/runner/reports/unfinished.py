"""Looking at a trial without a result yet: one that is under way, waits, or was left by a run that ended.

Rules: nothing is written and the owner is not asked. Logs of an attempt under way hold what its agent wrote,
secrets included, until they are collected: those whose values are known here are masked on the way, and so
are the tokens of its doors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

import msgspec

from labrunner.errors import InputError, StoreError
from labrunner.experiment.env_file import secrets_from
from labrunner.files.strangers.masking import Masker, make_masker
from labrunner.records.completion import Completion
from labrunner.records.rows import SlotRows
from labrunner.runner.reports.gaps import attempts_left, newest_attempt
from labrunner.runner.reports.lookup import describe_several, describe_unknown
from labrunner.runner.reports.recorded import read_experiment
from labrunner.sandbox.door import PhaseName
from labrunner.store.buffering.glimpse import last_event, read_events_after
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.layout import RunPaths
from labrunner.store.reading.conversations import LiveCalls
from labrunner.store.reading.logends import LogEnd, read_end
from labrunner.store.reading.run_state import iter_finished, read_state
from labrunner.store.reading.underway import LivePhase, UnderWay, read_under_way
from labrunner.store.rows.single_records import read_run
from labrunner.trial.door_tokens import PHASES, name_tokens

EVENTS: Final = "state/events.jsonl"
LOGS: Final = (
    *(f"logs/{phase}.{kind}" for phase in get_args(PhaseName) for kind in ("stdout", "stderr")),
    EVENTS,
    TRANSCRIPT,
)

SHOWN_EVENTS: Final = 100
"""A long transcript is not gone through for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A trial without a result."""

    trial_id: str
    attempt: int
    folder: Path
    is_live: bool = False
    """Whether its run goes on."""
    phase: LivePhase | None = None
    """Where it is, or was when its run's owner died; None where nothing tells."""
    since: str | None = None
    began_at: str | None = None
    failed: tuple[Completion, ...] = ()
    node: str | None = None
    token: str | None = field(default=None, repr=False)
    """Of its dispatch; None where nothing tells."""

    def mask(self, masker: Masker) -> Masker:
        """The same masks, and those of what this attempt alone knows."""
        if self.token is None:
            return masker
        return Masker((*masker.needles, *make_masker(name_tokens(self.token, PHASES)).needles))


class _OpenSlot(msgspec.Struct):
    schedule_idx: int
    trial_id: str


_slots: Final = msgspec.json.Decoder(_OpenSlot)


def find_any(paths: RunPaths, text: str) -> SlotRows | Unfinished:
    """Find a trial by its id, a unique part of it, or its position in the schedule, finished or not."""
    # What is under way is read first: what finishes meanwhile is then among the finished ones.
    is_live = read_state(paths) == "started"
    live = {each.trial_id: each for each in read_under_way(paths)}
    matches: dict[str, SlotRows | Unfinished] = {}
    for rows in iter_finished(paths):
        live.pop(rows.trial_id, None)
        if rows.trial_id == text or str(rows.schedule_idx) == text:
            return rows
        if text in rows.trial_id:
            matches[rows.trial_id] = rows
    for each in live.values():
        if each.trial_id == text or str(each.schedule_idx) == text:
            return _see(paths, each, is_live=is_live)
        if text in each.trial_id:
            matches[each.trial_id] = _see(paths, each, is_live=is_live)
    matches = matches or {left.trial_id: left for left in _find_left(paths, text)}
    if len(matches) == 1:
        return next(iter(matches.values()))
    raise InputError("TRIAL", describe_several(text, list(matches)) if matches else _describe(paths, text))


def find_live(paths: RunPaths, trial_id: str) -> Unfinished | None:
    """The trial of exactly this id, where it is under way."""
    found = (each for each in read_under_way(paths) if each.trial_id == trial_id)
    return next((_see(paths, each, is_live=True) for each in found), None)


def _see(paths: RunPaths, each: UnderWay, *, is_live: bool) -> Unfinished:
    return Unfinished(
        trial_id=each.trial_id,
        attempt=each.attempt,
        folder=paths.attempt(each.trial_id, each.attempt),
        is_live=is_live,
        phase=each.phase,
        since=each.since,
        began_at=each.began_at,
        failed=each.failed,
        node=each.node,
        token=each.token,
    )


def _find_left(paths: RunPaths, text: str) -> Iterator[Unfinished]:
    """Trials that left a folder and no result: a stop or a crash ended them."""
    try:
        names = [entry.name for entry in paths.trial_folders.iterdir() if text in entry.name]
    except OSError:
        return
    for name in [text] if text in names else names:
        newest = newest_attempt(attempts_left(paths.trial(name)))
        number = "" if newest is None else newest.partition(".")[0]
        if newest is not None and number.isdecimal():
            yield Unfinished(trial_id=name, attempt=int(number), folder=paths.trial(name) / newest)


def _describe(paths: RunPaths, text: str) -> str:
    """Say that a trial has not begun, or that there is none."""
    try:
        with paths.schedule.open("rb") as lines:
            planned = next((slot for slot in map(_slots.decode, lines) if _is_meant(slot, text)), None)
    except (OSError, ValueError):
        planned = None  # told by whoever needs the schedule
    if planned is None:
        return describe_unknown(paths, text)
    return f"{planned.trial_id} (slot {planned.schedule_idx}) has not been started yet"


def _is_meant(slot: _OpenSlot, text: str) -> bool:
    return text in {slot.trial_id, str(slot.schedule_idx)}


def known_masker(paths: RunPaths, values: Mapping[str, str]) -> Masker:
    """Masks declared secrets whose values are known here."""
    experiment = read_experiment(paths)
    names = {*experiment.secrets}
    names |= {entry.key for variant in experiment.variants for entry in variant.models if entry.key}
    return make_masker({name: values[name] for name in names if name in values})


def find_masker(paths: RunPaths) -> Masker:
    """The same with values as the run's owner found them, if they are still there."""
    env_file = read_run(paths).env_file
    found = secrets_from(Path(env_file) if env_file and Path(env_file).is_file() else None)
    return known_masker(paths, found)


def read_ends(paths: RunPaths, seen: Unfinished, masker: Masker) -> dict[str, str]:
    """The ends of what an attempt has written so far, by name."""
    found = {name: read_end(seen.folder / name) for name in LOGS}
    if found[TRANSCRIPT] is None:
        last = _last_event(paths, seen.trial_id, seen.attempt)
        found[TRANSCRIPT] = b"".join(_new_events(paths, seen.trial_id, seen.attempt, last - SHOWN_EVENTS))
    if not found[TRANSCRIPT]:
        found[TRANSCRIPT] = LiveCalls(seen.folder).take()
    masks = seen.mask(masker)
    return {name: masks.mask(data)[0].decode(errors="replace") for name, data in found.items() if data}


def _last_event(paths: RunPaths, trial_id: str, attempt: int) -> int:
    try:
        return last_event(paths.buffer, trial_id, attempt)
    except StoreError:
        return -1


def _new_events(paths: RunPaths, trial_id: str, attempt: int, after: int) -> Iterator[bytes]:
    try:
        while events := read_events_after(paths.buffer, trial_id, attempt, after):
            yield from (event.json + b"\n" for event in events)
            after = events[-1].seq
    except StoreError:
        return


@dataclass(slots=True, kw_only=True)
class Follower:
    """Follows what one attempt writes."""

    paths: RunPaths
    trial_id: str
    attempt: int
    masker: Masker
    _logs: dict[str, LogEnd] = field(default_factory=dict)
    _seq: int = -1
    _calls: LiveCalls | None = None

    def skip(self) -> None:
        """Begin with what is written from now on."""
        for log in self._open().values():
            log.skip(0)
        self._follow_calls().take()
        self._seq = _last_event(self.paths, self.trial_id, self.attempt)

    def take(self, *, is_over: bool = False) -> Iterator[tuple[str, str]]:
        """What was written since, by name; with the last line, whole or not, when it `is_over`."""
        for name, log in self._open().items():
            yield from self._safe(name, log.take_rest() if is_over else log.take())
        told = b"".join(self._take_events())
        yield from self._safe(TRANSCRIPT, told or self._follow_calls().take())

    def _follow_calls(self) -> LiveCalls:
        if self._calls is None:
            self._calls = LiveCalls(self.paths.attempt(self.trial_id, self.attempt))
        return self._calls

    def _open(self) -> dict[str, LogEnd]:
        folder = self.paths.attempt(self.trial_id, self.attempt)
        for name in LOGS:
            if name != TRANSCRIPT and name not in self._logs and (folder / name).exists():
                self._logs[name] = LogEnd(folder / name)
        return self._logs

    def _take_events(self) -> Iterator[bytes]:
        for line in _new_events(self.paths, self.trial_id, self.attempt, self._seq):
            self._seq += 1
            yield line

    def _safe(self, name: str, data: bytes) -> Iterator[tuple[str, str]]:
        if data:
            yield name, self.masker.mask(data)[0].decode(errors="replace")
