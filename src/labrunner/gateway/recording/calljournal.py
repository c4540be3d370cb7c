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

    def __init__(self, folder: Path, known: set[str], count: int) -> None:
        """Take over what stands in its files; who never calls has none."""
        self._folder = folder
        self._files: list[AppendFile] = []
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
            calls_file, bodies_file = self._open()
            new = {each.digest: each for each in bodies if each.digest not in self._known}
            if new:
                bodies_file.append(b"".join(encode_row("call_body_v1", each) for each in new.values()))
                bodies_file.sync()
                self._known |= new.keys()
            calls_file.append(line)
            calls_file.sync()

    def _open(self) -> list[AppendFile]:
        self._files = self._files or open_lines(self._folder, CALLS, BODIES)
        return self._files

    def close(self) -> None:
        """Give the descriptors back."""
        files, self._files = self._files, []
        for each in files:
            each.close()


def open_journal(folder: Path) -> CallJournal:
    """Go on with the calls of an attempt; files are made with the first. Raises StoreError."""
    known = {row.digest for row in read_bodies(folder)}
    count = 1 + max((row.ordinal for row in read_calls(folder)), default=-1)
    return CallJournal(folder, known, count)


def read_calls(folder: Path) -> Iterator[CallRow]:
    """The calls of an attempt, in the order in which they ended; it may have made none. Raises DamagedRun."""
    return read_lines(folder / CALLS, CallRow) if (folder / CALLS).exists() else iter(())


def read_bodies(folder: Path) -> Iterator[BodyRow]:
    """The bodies of an attempt. Raises DamagedRun."""
    return read_lines(folder / BODIES, BodyRow) if (folder / BODIES).exists() else iter(())
