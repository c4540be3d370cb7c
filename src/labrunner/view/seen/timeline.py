"""When trials of a run ended, and how: in equal steps from its first trial's beginning to its last end.

What the run's owner met is laid on the same axis: crashes, outages that paused it, trials that it adopted.
Beside it: which node of a cluster did how much, and what each has under way.
"""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import read_state
from labrunner.store.rows.outages import read_outages
from labrunner.store.rows.single_records import read_crashes, read_status
from labrunner.view.seen.board import Board
from labrunner.view.seen.screenful import write_time
from labrunner.view.seen.slotfacts import ERROR, FAIL, PASS, Columns

STEPS: Final = 120
MOST_ADOPTED: Final = 500
_KINDS: Final = (PASS, FAIL, ERROR)


class NodeDeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What one node of a cluster did."""

    node: str
    running: int
    ended: int = 0
    errors: int = 0
    time_s: float | None = None
    """The median of what its trials took."""
    last_at: str | None = None


def tell_times(board: Board) -> dict[str, object]:
    """How many trials passed, failed and errored in each step; crashes, outages and adoptions as shares."""
    columns = board.columns
    chosen = np.isin(columns.outcome, _KINDS) & ~np.isnan(columns.ended) & ~np.isnan(columns.began)
    if not chosen.any():
        return {"steps": [], "nodes": tell_nodes(board)}
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
        "nodes": tell_nodes(board),
    }


def tell_nodes(board: Board) -> list[NodeDeeds]:
    """What each node of a cluster did, by the last attempts of trials, and has under way.

    Those that have most under way come first, then those that did most.
    """
    columns = board.columns
    live = Counter(each.node for each in board.running.values() if each.node and each.phase != "waiting")
    names = {name: place for place, name in enumerate(columns.nodes.texts) if name}
    told = [_tell_node(columns, name, names.get(name), live[name]) for name in {**names, **live}]
    return sorted(told, key=lambda each: (-each.running, -each.ended, each.node))


def _tell_node(columns: Columns, name: str, place: int | None, running: int) -> NodeDeeds:
    its = columns.has_row & (columns.node == place) if place is not None else np.zeros(0, np.bool_)
    if not its.any():
        return NodeDeeds(node=name, running=running)
    took = columns.time_s[its]
    return NodeDeeds(
        node=name,
        running=running,
        ended=int(its.sum()),
        errors=int((columns.outcome[its] == ERROR).sum()),
        time_s=None if np.isnan(took).all() else float(np.nanmedian(took)),
        last_at=write_time(float(np.nanmax(columns.ended[its]))),
    )


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
