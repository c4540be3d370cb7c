"""Reading a run, live or dead, without disturbing its owner.

Rules: the journal bounds every other file; nothing beyond its last complete line is looked at, and rows that
are not those that were committed are refused: whoever takes them over would vouch for them. The
buffer's snapshot is taken before the journal is read: a slot that is committed meanwhile is then seen
in the journal, and no finished slot can fall between the two. Memory does not grow with the run.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO, Final, Literal, TypeVar

import msgspec

from labrunner.errors import DamagedRun, StoreError
from labrunner.records.rows import PredictionRow, ScoreRow, SlotRows, TimingRow, TrialRow
from labrunner.records.run import RunStatus, StatusRecord
from labrunner.store.buffering.buffer import BufferedSlot, snapshot
from labrunner.store.layout import RunPaths
from labrunner.store.rows.journal import Placed, read_last_line, read_lines
from labrunner.store.rows.lock import is_owned
from labrunner.store.rows.rowfiles import RowFiles, open_rows
from labrunner.store.rows.single_records import read_crashes, read_run, read_status
from labrunner.store.rows.slot_bytes import is_sound_payload
from labrunner.store.rows.timings import find_wrong_timing
from labrunner.store.rows.witness import find_floor, refuse_shortened
from labrunner.store.rows.written import open_file

__all__ = [
    "RunState",
    "iter_beyond",
    "iter_finished",
    "iter_trials",
    "open_waiting",
    "read_crashes",
    "read_run",
    "read_state",
    "read_status",
]

_log: Final = logging.getLogger(__name__)

Decoded = TypeVar("Decoded")
RunState = RunStatus | Literal["crashed"]

_slots: Final = msgspec.json.Decoder(SlotRows)
_predictions: Final = msgspec.json.Decoder(PredictionRow)
_scores: Final = msgspec.json.Decoder(ScoreRow)
_trials: Final = msgspec.json.Decoder(TrialRow)
_timings: Final = msgspec.json.Decoder(TimingRow)


class _TrialOnly(msgspec.Struct):
    """The part of a buffered slot that listings of trials need."""

    trial: TrialRow


_trial_only: Final = msgspec.json.Decoder(_TrialOnly)


def read_state(paths: RunPaths) -> RunState:
    """How a run stands: its status, or `crashed` when it says `started` and nobody owns it."""
    # Owned is asked first: an owner that ends in between has written its last status before it lets go.
    owned = is_owned(paths)
    return judge_state(read_status(paths), is_owned=owned)


def judge_state(status: StatusRecord | None, *, is_owned: bool) -> RunState:
    """Decide how a run stands."""
    if status is not None and status.status != "started" and not is_owned:
        return status.status
    return "started" if is_owned else "crashed"


def _every(trial_id: str) -> bool:
    del trial_id
    return True


def iter_finished(paths: RunPaths, is_wanted: Callable[[str], bool] = _every) -> Iterator[SlotRows]:
    """Every finished slot: the committed ones in schedule order, then those that wait in the buffer.

    With `is_wanted` only those of some trials, by id: rows of the others are not even read.
    """
    run_id = read_run(paths).run_id
    with ExitStack() as stack:
        waiting, rows, timings = _open_finished(paths, run_id, stack)
        committed = 0
        for placed in read_lines(paths.commits, run_id):
            if is_wanted(placed.line.trial_id):
                yield _join(rows, timings, placed)
            else:
                timings.readline()
            committed += 1
        for kept in iter_beyond(waiting, committed, run_id):
            slot = _decode(_slots, kept.payload, "buffered slot", kept.schedule_idx)
            if is_wanted(slot.trial_id):
                yield slot


def iter_trials(paths: RunPaths) -> Iterator[TrialRow]:
    """The trial rows of every finished slot, in the same order as `iter_finished`."""
    run_id = read_run(paths).run_id
    with ExitStack() as stack:
        waiting, rows, timings = _open_finished(paths, run_id, stack)
        committed = 0
        for placed in read_lines(paths.commits, run_id):
            _check_timing(timings, placed)
            yield _decode(_trials, rows.check(placed).trials[0], "trial row of slot", committed)
            committed += 1
        for kept in iter_beyond(waiting, committed, run_id):
            yield _decode(_trial_only, kept.payload, "buffered slot", kept.schedule_idx).trial


def _open_finished(
    paths: RunPaths, run_id: str, stack: ExitStack
) -> tuple[Iterator[BufferedSlot], RowFiles, BinaryIO]:
    """The buffer first: what is committed after that is in both, and what waits is never missed."""
    waiting = open_waiting(paths, stack)
    refuse_shortened(paths, find_floor(paths), read_last_line(paths.commits, run_id))
    rows = stack.enter_context(open_rows(paths))
    return waiting, rows, stack.enter_context(open_file(paths.timings))


def open_waiting(paths: RunPaths, stack: ExitStack) -> Iterator[BufferedSlot]:
    """A snapshot of the buffer. One that can't be read hides no committed row."""
    try:
        return stack.enter_context(snapshot(paths.buffer))
    except StoreError as error:
        _warn_of_buffer(error)
        return iter(())


def iter_beyond(waiting: Iterator[BufferedSlot], committed: int, run_id: str) -> Iterator[BufferedSlot]:
    """Slots that wait still: a commit publishes them first and drops them from the buffer later.

    One whose rows are not those that were stored is owed again, so it is passed over.
    """
    try:
        for kept in waiting:
            if kept.schedule_idx < committed:
                continue
            if is_sound_payload(kept.payload, run_id, kept.schedule_idx, kept.digest):
                yield kept
            else:
                _log.warning("slot %d in the buffer is damaged, and left out", kept.schedule_idx)
    except StoreError as error:
        _warn_of_buffer(error)


def _warn_of_buffer(error: StoreError) -> None:
    _log.warning("finished results that are not committed yet can't be shown: %s", error)


def _join(rows: RowFiles, timings: BinaryIO, placed: Placed) -> SlotRows:
    line, lines = placed.line, rows.check(placed)
    idx = line.schedule_idx
    return SlotRows(
        schedule_idx=idx,
        trial_id=line.trial_id,
        attempt=line.attempt,
        slot_commit_id=line.slot_commit_id,
        predictions=tuple(_decode(_predictions, row, "prediction of slot", idx) for row in lines.predictions),
        scores=tuple(_decode(_scores, row, "score of slot", idx) for row in lines.scores),
        trial=_decode(_trials, lines.trials[0], "trial row of slot", idx),
        timing=_read_timing(timings, placed),
    )


def _read_timing(timings: BinaryIO, placed: Placed) -> TimingRow:
    return _decode(_timings, _check_timing(timings, placed), "timing of slot", placed.line.schedule_idx)


def _check_timing(timings: BinaryIO, placed: Placed) -> bytes:
    text, idx = timings.readline(), placed.line.schedule_idx
    if (problem := find_wrong_timing(text, placed.line)) is not None:
        raise DamagedRun(f"{timings.name}: line {idx + 1} {problem}; nothing was changed; try: lab verify")
    return text


def _decode(decoder: msgspec.json.Decoder[Decoded], data: bytes, what: str, idx: int) -> Decoded:
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {what} {idx}: {error}; try: lab verify") from error
