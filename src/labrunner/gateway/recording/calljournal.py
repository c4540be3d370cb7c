"""The calls of one attempt on disk: `calls.jsonl`, and `bodies.jsonl` with what they refer to.

Rules: bodies are synced before the row that names them, the row before `write` returns. Every line is checked
against its schema before it is written. What a gateway that died had under way gets its row from whoever
opens the calls next.
"""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from labrunner.files.durable import AppendFile
from labrunner.gateway.recording.linefile import encode_row, open_lines, read_lines
from labrunner.gateway.recording.opencalls import OPEN, OpenCalls, forget_open, read_open
from labrunner.records.encoding.canonical import stamp
from labrunner.records.facts.model_call import BodyRow, CallRow

CALLS: Final = "calls.jsonl"
BODIES: Final = "bodies.jsonl"
_QUICK_S: Final = 0.001
"""A disk that takes a call in less is worth no thread."""


class CallJournal:
    """Appends calls, from any thread. See `open_journal`."""

    def __init__(self, folder: Path, known: set[str], count: int) -> None:
        """Take over what stands in its files; who never calls has none."""
        self._folder = folder
        self._under_way = OpenCalls(folder)
        self._took_s: float | None = None
        self._files: list[AppendFile] = []
        self._known = known
        self._lock = Lock()
        self._ordinals = itertools.count(count)

    def take_ordinal(self) -> int:
        """The number of the next call."""
        return next(self._ordinals)

    @property
    def is_quick(self) -> bool:
        """Whether writing a call takes so little that it can be waited for, by what the last one took."""
        return self._took_s is not None and self._took_s < _QUICK_S and not self._lock.locked()

    def begin(self, row: CallRow) -> None:
        """Note a call that is about to be sent, by the row it has if it never ends. Raises StoreError."""
        self._under_way.begin(row)  # without the lock: who holds it may wait for a disk

    def write(self, row: CallRow, bodies: Sequence[BodyRow]) -> None:
        """Write a call and those of its bodies that are new; durable when this returns. Raises StoreError."""
        line = encode_row("model_call_v1", row)
        with self._lock:
            calls_file, bodies_file = self._open()
            began = time.monotonic()
            new = {each.digest: each for each in bodies if each.digest not in self._known}
            if new:
                bodies_file.append(b"".join(encode_row("call_body_v1", each) for each in new.values()))
                bodies_file.sync()
                self._known |= new.keys()
            calls_file.append(line)
            calls_file.sync()
            self._took_s = time.monotonic() - began
            self._under_way.end(row.call_id)

    def _open(self) -> list[AppendFile]:
        self._files = self._files or open_lines(self._folder, CALLS, BODIES)
        return self._files

    def close(self) -> None:
        """Give the descriptors back. Raises StoreError."""
        files, self._files = self._files, []
        for each in files:
            each.close()
        self._under_way.close()


def open_journal(folder: Path) -> CallJournal:
    """Go on with the calls of an attempt; files are made with the first. Raises StoreError."""
    settle_calls(folder)
    known = {row.digest for row in read_bodies(folder)}
    count = 1 + max((row.ordinal for row in read_calls(folder)), default=-1)
    return CallJournal(folder, known, count)


def settle_calls(folder: Path) -> list[CallRow]:
    """Give the calls their rows that a gateway had under way when it died; which they are.

    Only where no gateway serves the attempt. Raises DamagedRun, StoreError.
    """
    if not os.path.lexists(folder / OPEN):
        return []
    written = {row.call_id for row in read_calls(folder)}
    now = stamp(datetime.now(UTC))
    lost = [
        msgspec.structs.replace(row, ended_at=now) for row in read_open(folder) if row.call_id not in written
    ]
    lines = list[bytes]()
    for row in lost:
        with suppress(ValueError):  # where nothing is kept from an agent, it may have written there, too
            lines.append(encode_row("model_call_v1", row))
    if lines:
        (file,) = open_lines(folder, CALLS)
        try:
            file.append(b"".join(lines))
            file.sync()
        finally:
            file.close()
    forget_open(folder)
    return lost


def read_calls(folder: Path) -> Iterator[CallRow]:
    """The calls of an attempt, in the order in which they ended; it may have made none. Raises DamagedRun."""
    return read_lines(folder / CALLS, CallRow) if (folder / CALLS).exists() else iter(())


def read_bodies(folder: Path) -> Iterator[BodyRow]:
    """The bodies of an attempt. Raises DamagedRun."""
    return read_lines(folder / BODIES, BodyRow) if (folder / BODIES).exists() else iter(())
