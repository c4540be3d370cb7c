"""Bodies of a recorded attempt, found by digest without having all of them in memory."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import storing
from labrunner.gateway.recording.calljournal import BODIES
from labrunner.records.facts.model_call import BodyRow


class _Head(msgspec.Struct):
    """What is read of a line to find it again; the rest is skipped unread."""

    digest: str


_heads: Final = msgspec.json.Decoder(_Head)
_rows: Final = msgspec.json.Decoder(BodyRow)


class BodyIndex(Mapping[str, BodyRow]):
    """Where each body stands in its file. See `index_bodies`."""

    def __init__(self, path: Path, places: Mapping[str, tuple[int, int]]) -> None:
        """Take offsets and sizes of lines, by digest."""
        self._path = path
        self._places = places

    def __getitem__(self, digest: str) -> BodyRow:
        """One body. Raises KeyError, StoreError."""
        offset, size = self._places[digest]
        with storing("reading", self._path), self._path.open("rb") as file:
            file.seek(offset)
            return _rows.decode(file.read(size))

    def __iter__(self) -> Iterator[str]:
        """Their digests."""
        return iter(self._places)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._places)


def index_bodies(folder: Path) -> BodyIndex:
    """Find the bodies of an attempt; a torn last line is passed over. Raises DamagedRun."""
    path = folder / BODIES
    if not path.exists():
        return BodyIndex(path, {})
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    with storing("reading", path), path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                places[_read_digest(line, path)] = (offset, len(line))
            offset += len(line)
    return BodyIndex(path, places)


def _read_digest(line: bytes, path: Path) -> str:
    try:
        return _heads.decode(line).digest
    except msgspec.DecodeError as error:
        raise DamagedRun(f"reading {path}: {error}") from error
