"""The calls of one attempt on disk: `calls.jsonl`, and `bodies.jsonl` with what they refer to.

Rules: bodies are synced before the row that names them, the row before `write` returns. Every line is checked
against its schema before it is written.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from labrunner.files.durable import AppendFile
from labrunner.gateway.recording.linefile import encode_row, open_lines, read_lines
from labrunner.records.facts.model_call import BodyRow, CallRow

CALLS: Final = "calls.jsonl"
BODIES: Final = "bodies.jsonl"


class CallJournal:
    """Appends calls, from any thread. See `open_journal`."""

    def __init__(self, calls: AppendFile, bodies: AppendFile, known: set[str], count: int) -> None:
        """Take over open files, and what stands in them."""
        self._calls = calls
        self._bodies = bodies
        self._known = known
        self._lock = Lock()
        self._next = count

    def take_ordinal(self) -> int:
        """The number of the next call."""
        with self._lock:
            self._next += 1
            return self._next - 1

    def write(self, row: CallRow, bodies: Sequence[BodyRow]) -> None:
        """Write a call and those of its bodies that are new; durable when this returns. Raises StoreError."""
        line = encode_row("model_call_v1", row)
        with self._lock:
            new = {each.digest: each for each in bodies if each.digest not in self._known}
            if new:
                self._bodies.append(b"".join(encode_row("call_body_v1", each) for each in new.values()))
                self._bodies.sync()
                self._known |= new.keys()
            self._calls.append(line)
            self._calls.sync()

    def close(self) -> None:
        """Give the descriptors back."""
        self._calls.close()
        self._bodies.close()


def open_journal(folder: Path) -> CallJournal:
    """Open the calls of an attempt, made anew where there are none. Raises StoreError."""
    calls, bodies = open_lines(folder, CALLS, BODIES)
    known = {row.digest for row in read_bodies(folder)}
    count = 1 + max((row.ordinal for row in read_calls(folder)), default=-1)
    return CallJournal(calls, bodies, known, count)


def read_calls(folder: Path) -> Iterator[CallRow]:
    """The calls of an attempt, in the order in which they ended. Raises DamagedRun."""
    return read_lines(folder / CALLS, CallRow)


def read_calls_of(folder: Path) -> list[CallRow]:
    """The same, of an attempt that may have made none."""
    return list(read_calls(folder)) if (folder / CALLS).exists() else []


def read_bodies(folder: Path) -> Iterator[BodyRow]:
    """The bodies of an attempt. Raises DamagedRun."""
    return read_lines(folder / BODIES, BodyRow)
