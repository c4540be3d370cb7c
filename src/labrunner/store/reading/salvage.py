"""Whatever of a run is sound, slot by slot, though other parts of it may be damaged. Only reads.

A slot is sound when its line in the journal carries its own seal and its rows have the digest that the line
names; or, in the buffer, when its rows have the digest that was stored with them. Lines before and after
need not be sound: that the chain is broken is for `lab verify` to say.
"""

import heapq
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.records.completion import AttemptTiming
from labrunner.records.rows import PredictionRow, ScoreRow, SlotRows, TimingRow, TrialRow, is_sealed_timing
from labrunner.store.buffering.buffer import BufferedSlot
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import open_waiting
from labrunner.store.rows.journal import iter_sealed
from labrunner.store.rows.rowfiles import RowFiles, SlotLines, open_rows
from labrunner.store.rows.single_records import read_run
from labrunner.store.rows.slot_bytes import decode_payload
from labrunner.store.rows.witness import find_floor
from labrunner.store.rows.written import open_file

LOST: Final = "unknown"
"""Stands for what was lost with a timing row."""
_slots: Final = msgspec.json.Decoder(SlotRows)
_predictions: Final = msgspec.json.Decoder(PredictionRow)
_scores: Final = msgspec.json.Decoder(ScoreRow)
_trials: Final = msgspec.json.Decoder(TrialRow)
_timings: Final = msgspec.json.Decoder(TimingRow)


def iter_sound(paths: RunPaths) -> Iterator[SlotRows]:
    """Every finished slot that is sound, in schedule order, committed or buffered."""
    run_id = read_run(paths).run_id
    with ExitStack() as stack:
        waiting = open_waiting(paths, stack)
        rows = _open_rows(paths, stack)
        timings = _open_timings(paths, stack)
        found = heapq.merge(
            _committed(paths, run_id, rows, _Timings(timings)),
            _buffered(waiting, run_id),
            key=lambda slot: slot.schedule_idx,
        )
        last = -1
        for slot in found:
            if slot.schedule_idx > last:  # committed and not yet dropped from the buffer: the first stands
                yield slot
                last = slot.schedule_idx


def count_committed(paths: RunPaths) -> int:
    """How many slots were committed, as far as the journal's last sealed line and other files tell."""
    lines = iter_sealed(paths.commits, read_run(paths).run_id)
    sealed = max((line.schedule_idx + 1 for line in lines), default=0)
    return max(sealed, find_floor(paths))


class _Timings:
    """Timing rows by slot. They lie in the order of slots, and some may be unreadable."""

    def __init__(self, file: Iterable[bytes]) -> None:
        self._rows = self._readable(file)
        self._next = next(self._rows, None)

    def find(self, trial: TrialRow) -> TimingRow:
        while self._next is not None and self._next.schedule_idx < trial.schedule_idx:
            self._next = next(self._rows, None)
        if self._next is not None and self._next.ids == trial.ids:
            return self._next
        return TimingRow(
            schema_version="trial_timing_v1",
            schedule_idx=trial.schedule_idx,
            ids=trial.ids,
            attempts=tuple(_without_times(fact.attempt) for fact in trial.attempts),
        )

    @staticmethod
    def _readable(file: Iterable[bytes]) -> Iterator[TimingRow]:
        for text in file:
            try:
                if is_sealed_timing(text):
                    yield _timings.decode(text)
            except (ValueError, RecursionError):
                continue


def _without_times(attempt: int) -> AttemptTiming:
    """An attempt of which nothing is known but that it was: readers count on one for each."""
    return AttemptTiming(attempt=attempt, started_at="", ended_at="", host=LOST, sandbox=LOST)


def _open_timings(paths: RunPaths, stack: ExitStack) -> Iterable[bytes]:
    """Lines of the timings; none when they are gone: a result stands without its times."""
    try:
        return stack.enter_context(open_file(paths.timings))
    except DamagedRun:
        return ()


def _open_rows(paths: RunPaths, stack: ExitStack) -> RowFiles | None:
    """The row files; None when one is gone: no committed slot is whole without it."""
    try:
        return stack.enter_context(open_rows(paths))
    except DamagedRun:
        return None


def _committed(paths: RunPaths, run_id: str, rows: RowFiles | None, timings: _Timings) -> Iterator[SlotRows]:
    if rows is None:
        return
    for line in iter_sealed(paths.commits, run_id):
        try:
            lines = rows.read_back(line)
        except DamagedRun:
            continue
        if lines.has_digest(run_id, line.rows_digest):
            yield _decode(lines, timings)


def _decode(lines: SlotLines, timings: _Timings) -> SlotRows:
    trial = _trials.decode(lines.trials[0])
    return SlotRows(
        schedule_idx=trial.schedule_idx,
        trial_id=trial.ids.trial_id,
        attempt=trial.attempt,
        slot_commit_id=trial.slot_commit_id,
        predictions=tuple(map(_predictions.decode, lines.predictions)),
        scores=tuple(map(_scores.decode, lines.scores)),
        trial=trial,
        timing=timings.find(trial),
    )


def _buffered(waiting: Iterator[BufferedSlot], run_id: str) -> Iterator[SlotRows]:
    for kept in waiting:
        try:
            if decode_payload(kept.payload, run_id).digest == kept.digest:
                yield _slots.decode(kept.payload)
        except (ValueError, RecursionError):
            continue
