"""Named points between durable steps of store and depot, where a test can have the process killed.

`LAB_DIE_AT=name:hit` ends the process with SIGKILL when it reaches that point for the hit-th time.
Without the variable a point costs one comparison.
"""

import os
import signal
from collections import Counter
from typing import Final

POINTS: Final = (
    "create.begun",
    "create.written",
    "create.renamed",
    "create.done",
    "open.locked",
    "open.crash_note.written",
    "open.crash_note.renamed",
    "open.crash_note.done",
    "open.salvage.written",
    "open.salvage.renamed",
    "open.salvage.done",
    "open.cut",
    "open.rewritten",
    "open.synced",
    "open.buffered.written",
    "open.buffered.renamed",
    "open.buffered.done",
    "open.buffer_dropped",
    "open.done",
    "buffer.begun",
    "buffer.inserted",
    "buffer.committed",
    "buffer.trimmed",
    "commit.begun",
    "commit.rows_appended",
    "commit.rows_synced",
    "commit.line_appended",
    "commit.line_synced",
    "commit.acknowledged",
    "status.written",
    "status.renamed",
    "status.done",
    "summary.written",
    "summary.renamed",
    "summary.done",
    "marks.written",
    "marks.renamed",
    "marks.done",
    "outages.written",
    "outages.renamed",
    "outages.done",
    "recover.begun",
    "recover.written",
    "recover.replaced",
    "recover.renamed",
    "recover.done",
    "depot.forgotten",
    "depot.moved",
    "layer.begun",
    "layer.written",
    "layer.renamed",
    "layer.done",
)

hits: Final[Counter[str]] = Counter()
"""How often each point was reached; counted only while `LAB_DIE_AT` is set."""

_TARGET: Final = os.environ.get("LAB_DIE_AT")


def reach(name: str) -> None:
    """Pass the point `name`, or die there."""
    if _TARGET is not None:
        _strike(name, _TARGET)


def _strike(name: str, target: str) -> None:
    if name not in POINTS:
        raise ValueError(f"crash point {name!r} is not in POINTS")
    hits[name] += 1
    if f"{name}:{hits[name]}" == target:
        os.kill(os.getpid(), signal.SIGKILL)
