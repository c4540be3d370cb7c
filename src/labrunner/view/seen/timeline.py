"""When trials of a run ended, and how: in equal steps from its first trial's beginning to its last end."""

from datetime import datetime
from typing import Final

import numpy as np

from labrunner.store.rows.single_records import read_crashes
from labrunner.view.seen.board import Board
from labrunner.view.seen.screenful import write_time
from labrunner.view.seen.slotfacts import ERROR, FAIL, PASS

STEPS: Final = 120
_KINDS: Final = (PASS, FAIL, ERROR)


def tell_times(board: Board) -> dict[str, object]:
    """How many trials passed, failed and errored in each step; crashes of the run's owner; adoptions."""
    columns = board.columns
    chosen = np.isin(columns.outcome, _KINDS) & ~np.isnan(columns.ended) & ~np.isnan(columns.began)
    if not chosen.any():
        return {"steps": []}
    began, last = float(columns.began[chosen].min()), float(columns.ended[chosen].max())
    each = max(last - began, 0.001) / STEPS
    step = np.minimum(STEPS - 1, ((columns.ended - began) / each)[chosen].astype(np.int64))
    counts = [np.bincount(step[columns.outcome[chosen] == kind], minlength=STEPS) for kind in _KINDS]
    adopted = np.flatnonzero(chosen & columns.is_adopted)
    return {
        "began_at": write_time(began),
        "ended_at": write_time(last),
        "steps": np.stack(counts, axis=1).tolist(),
        "crashes": [
            (datetime.fromisoformat(crash.status_updated_at).timestamp() - began) / (each * STEPS)
            for crash in read_crashes(board.paths)
        ],
        "adopted": [(float(at) - began) / (each * STEPS) for at in columns.began[adopted][:MOST_ADOPTED]],
    }


MOST_ADOPTED: Final = 500
