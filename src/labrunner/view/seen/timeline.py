"""When trials of a run ended, and how: in equal steps from its first trial's beginning to its last end."""

from datetime import UTC, datetime
from typing import Final

from labrunner.records.encoding.canonical import stamp
from labrunner.store.rows.single_records import read_crashes
from labrunner.view.seen.board import Board, BoardRow

STEPS: Final = 120
_KINDS: Final = ("pass", "fail", "error")


def tell_times(board: Board) -> dict[str, object]:
    """How many trials passed, failed and errored in each step; and when the run's owner died."""
    ended = [(_seconds(row.ended_at), row) for row in board.rows.values() if row.ending in _KINDS]
    if not ended:
        return {"steps": []}
    began = min(_seconds(row.began_at) for _, row in ended)
    last = max(at for at, _ in ended)
    each = max(last - began, 0.001) / STEPS
    steps = [[0] * len(_KINDS) for _ in range(STEPS)]
    for at, row in ended:
        steps[min(STEPS - 1, int((at - began) / each))][_place(row)] += 1
    return {
        "began_at": _stamp(began),
        "ended_at": _stamp(last),
        "steps": steps,
        "crashes": [
            (_seconds(crash.status_updated_at) - began) / (each * STEPS)
            for crash in read_crashes(board.paths)
        ],
    }


def _place(row: BoardRow) -> int:
    return _KINDS.index(row.ending)


def _seconds(at: str | None) -> float:
    return datetime.fromisoformat(at).timestamp() if at else 0.0


def _stamp(seconds: float) -> str:
    return stamp(datetime.fromtimestamp(seconds, UTC))
