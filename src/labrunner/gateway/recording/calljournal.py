"""The calls of one attempt on disk: `calls.jsonl`, and `bodies.jsonl` with what they refer to.

Rules: bodies are synced before the row that names them, the row before `write` returns. A torn last line,
which a crash leaves, is cut off when the files are opened again. Every line is checked against its schema
before it is written.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.descriptors import write_file
from labrunner.files.durable import AppendFile, cut, open_append, storing, sync_folder, write_again
from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import BodyRow, CallRow

CALLS: Final = "calls.jsonl"
BODIES: Final = "bodies.jsonl"
_Row = TypeVar("_Row", CallRow, BodyRow)


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
        line = _encode("model_call_v1", row)
        with self._lock:
            new = {each.digest: each for each in bodies if each.digest not in self._known}
            if new:
                self._bodies.append(b"".join(_encode("call_body_v1", each) for each in new.values()))
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
    for name in (CALLS, BODIES):
        _mend(folder / name)
    sync_folder(folder)
    known = {row.digest for row in read_bodies(folder)}
    count = 1 + max((row.ordinal for row in read_calls(folder)), default=-1)
    return CallJournal(open_append(folder / CALLS), open_append(folder / BODIES), known, count)


def read_calls(folder: Path) -> Iterator[CallRow]:
    """The calls of an attempt, in the order in which they ended. Raises DamagedRun."""
    return _read(folder / CALLS, CallRow)


def read_bodies(folder: Path) -> Iterator[BodyRow]:
    """The bodies of an attempt. Raises DamagedRun."""
    return _read(folder / BODIES, BodyRow)


def _read(path: Path, kind: type[_Row]) -> Iterator[_Row]:
    decoder = msgspec.json.Decoder(kind)
    with storing("reading", path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return  # torn by a crash: nobody was told that it is there
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise DamagedRun(f"reading {path}, line {number}: {error}") from error


def _mend(path: Path) -> None:
    if not path.exists():
        with storing("writing", path):
            write_file(path, b"")
        return
    with storing("reading", path):
        data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        cut(path, whole)
    write_again(path, 0)


def _encode(name: str, row: CallRow | BodyRow) -> bytes:
    line = canonical.encode_line(row)
    schema.validate(name, line)
    return line
