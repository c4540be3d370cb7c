"""One trial for its page: what its records say, where its files are, and which trials are beside it."""

import json
from collections.abc import Mapping
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.schedule import Slot
from labrunner.records.barrier import explain_barrier
from labrunner.records.rows import SlotRows
from labrunner.runner.reports.unfinished import Unfinished, find_any, find_masker, read_ends
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.checking.invalidations import find_mark
from labrunner.store.layout import RunPaths
from labrunner.store.reading.earlier_file import read_earlier
from labrunner.store.reading.events import LOGGED
from labrunner.store.reading.fullscores import read_scores
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.single_records import read_run
from labrunner.trial.collecting.recorded_calls import RECORDED
from labrunner.view.left.ansi import style
from labrunner.view.left.conversing import decode, page_of
from labrunner.view.left.keptfiles import KeptFile, list_kept
from labrunner.view.plain.trial_json import plain_trial
from labrunner.view.plain.underway_json import plain_under_way
from labrunner.view.seen.board import Board
from labrunner.view.seen.screenful import find_neighbours, plain_row

SAID: Final = frozenset({TRANSCRIPT, LOGGED, *RECORDED})
"""Files of which a conversation is made."""


def find_slot(board: Board, trial: str | None, slot: int | None) -> Slot:
    """The slot that somebody asks for, by the trial's id or by its position."""
    if slot is not None and 0 <= slot < len(board.schedule):
        return board.slot(slot)
    found = board.find(trial) if trial is not None else None
    if found is None:
        raise InputError("trial", f"this run has no trial {trial if trial is not None else slot!r}")
    return found


def find_rows(paths: RunPaths, trial_id: str) -> SlotRows | None:
    """A finished trial's rows."""
    return next(iter_finished(paths, lambda other: other == trial_id), None)


def see_trial(board: Board, slot: Slot) -> dict[str, object]:
    """A trial as its page shows it."""
    trial_id, paths = board.trial_id(slot), board.paths
    told = {
        **plain_row(board, slot),
        "withdrawn": board.withdrawn.get(trial_id),
        "beside": find_neighbours(board, slot),
        "replications": board.schedule.replications,
    }
    rows = find_rows(paths, trial_id) if board.columns.has_row[slot.schedule_idx] else None
    if rows is not None:
        return told | tell_finished(paths, rows)
    live = _find_unfinished(paths, trial_id)
    return told if live is None else told | {"unfinished": plain_under_way(live) | {"is_live": live.is_live}}


def read_live(paths: RunPaths, trial_id: str) -> dict[str, object]:
    """The ends of what an attempt without a result has written so far, secrets that are known here masked."""
    found = _find_unfinished(paths, trial_id)
    if found is None:
        return {"logs": [], "entries": []}
    ends = read_ends(paths, found, find_masker(paths))
    said = page_of(decode(iter(ends.pop(TRANSCRIPT, "").encode().split(b"\n"))), 0)
    return {
        "attempt": found.attempt,
        "phase": found.phase,
        "logs": [{"path": name, "pieces": style(text)} for name, text in ends.items() if text],
        "entries": said["entries"],
    }


def _find_unfinished(paths: RunPaths, trial_id: str) -> Unfinished | None:
    try:
        found = find_any(paths, trial_id)
    except InputError:
        return None  # it was not begun
    return found if isinstance(found, Unfinished) and found.trial_id == trial_id else None


def tell_finished(paths: RunPaths, rows: SlotRows) -> dict[str, object]:
    """What a finished trial's records say, and which files it left."""
    earlier = read_earlier(paths, read_run(paths)).get(rows.schedule_idx, ())
    record = plain_trial(rows, earlier, find_mark(paths, rows.trial_id))
    files = [_plain_file(kept) for kept in list_kept(paths, rows)]
    return {
        "record": record,
        "record_text": _write_record(record),
        "scores": read_scores(paths, rows),
        "files": files,
        "barrier": explain_barrier(rows.trial.barrier),
        "has_conversation": any(kept.ref.path in SAID for kept in list_kept(paths, rows)),
        "shown_attempt": rows.attempt,
    }


def _plain_file(kept: KeptFile) -> dict[str, object]:
    ref = kept.ref
    return {"attempt": kept.attempt, "path": ref.path, "digest": ref.digest, "size": ref.size}


def _write_record(record: Mapping[str, object]) -> str:
    """Rows as they are: in letters that every screen shows as what they are."""
    shown = {key: value for key, value in record.items() if key != "earlier"}
    return json.dumps(shown, indent=2, ensure_ascii=True, default=str)
