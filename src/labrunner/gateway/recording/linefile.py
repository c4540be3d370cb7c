"""Files of lines that only grow: opened after a crash, read while they grow.

Rule: a torn last line, which a crash leaves, is cut off when a file is opened again, and passed over when it
is read: nobody was told that it is there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.descriptors import write_file
from labrunner.files.durable import AppendFile, cut, open_append, storing, sync_folder, write_again
from labrunner.records import schema
from labrunner.records.encoding import canonical

_Row = TypeVar("_Row", bound=msgspec.Struct)


def open_lines(folder: Path, *names: str) -> list[AppendFile]:
    """Open files of a folder for appending, made anew where there are none. Raises StoreError."""
    for name in names:
        _mend(folder / name)
    sync_folder(folder)
    return [open_append(folder / name) for name in names]


def read_lines(path: Path, kind: type[_Row]) -> Iterator[_Row]:
    """The rows of a file. Raises DamagedRun."""
    decoder = msgspec.json.Decoder(kind)
    with storing("reading", path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise DamagedRun(f"reading {path}, line {number}: {error}") from error


def encode_row(name: str, row: msgspec.Struct) -> bytes:
    """A row's line, checked against its schema. Raises ValueError."""
    line = canonical.encode_line(row)
    schema.validate(name, line)
    return line


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
