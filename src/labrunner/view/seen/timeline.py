"""When trials of a run ended, and how: in equal steps from its first trial's beginning to its last end.

What the run's owner met is laid on the same axis: crashes, outages that paused it, trials that it adopted.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import numpy as np

from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import read_state
from labrunner.store.rows.outages import read_outages
from labrunner.store.rows.single_records import read_crashes, read_status
from labrunner.view.seen.board import Board
from labrunner.view.seen.screenful import write_time
from labrunner.view.seen.slotfacts import ERROR, FAIL, PASS

STEPS: Final = 120
MOST_ADOPTED: Final = 500
_KINDS: Final = (PASS, FAIL, ERROR)


def tell_times(board: Board) -> dict[str, object]:
    """How many trials passed, failed and errored in each step; crashes, outages and adoptions as shares."""
    columns = board.columns
    chosen = np.isin(columns.outcome, _KINDS) & ~np.isnan(columns.ended) & ~np.isnan(columns.began)
    if not chosen.any():
        return {"steps": []}
    crashes = [_seconds(crash.status_updated_at) for crash in read_crashes(board.paths)]
    outages = list(_find_outages(board.paths, crashes))
    began, ended = float(columns.began[chosen].min()), float(columns.ended[chosen].max())
    last = max(ended, *(end for _, _, end in outages), began)
    whole = max(last - began, 0.001)
    step = np.minimum(STEPS - 1, ((columns.ended - began) / whole * STEPS)[chosen].astype(np.int64))
    counts = [np.bincount(step[columns.outcome[chosen] == kind], minlength=STEPS) for kind in _KINDS]
    adopted = np.flatnonzero(chosen & columns.is_adopted)
    return {
        "began_at": write_time(began),
        "ended_at": write_time(last),
        "steps": np.stack(counts, axis=1).tolist(),
        "crashes": [(at - began) / whole for at in crashes],
        "adopted": [(float(at) - began) / whole for at in columns.began[adopted][:MOST_ADOPTED]],
        "outages": [
            {"cause": cause, "from": max(0.0, (start - began) / whole), "to": (end - began) / whole}
            for cause, start, end in outages
            if end > began
        ],
    }


def _find_outages(paths: RunPaths, crashes: list[float]) -> Iterator[tuple[str, float, float]]:
    """Each outage, from when to when; one whose end nobody noted lasts, or the run's owner died in it."""
    for each in read_outages(paths):
        start = _seconds(each.began_at)
        if each.ended_at is not None:
            end = _seconds(each.ended_at)
        elif later := [at for at in crashes if at >= start]:
            end = min(later)
        elif read_state(paths) == "started":
            end = time.time()
        else:
            status = read_status(paths)
            end = max(start, _seconds(status.updated_at)) if status is not None else start
        yield str(each.cause), start, end


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
