"""Connections to hosts under way, on disk: the events that they have should the gateway die before they end.

Rules: a line is written before anything passes, and not synced: it outlives the process, not the machine.
Each has a place of its own, which another one takes over when it is free: however many come one after
another, the file has as many places as there were at once. Whoever comes after a gateway that died makes
events of the lines that are left, once.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from labrunner.files.durable import storing
from labrunner.files.strangers.hostile import open_plain
from labrunner.files.strangers.removal import remove
from labrunner.records.encoding import canonical
from labrunner.records.facts.door_event import DoorEvent

PHASES: Final = ("setup", "agent", "grader")
_PLACE: Final = 4096
_FREE: Final = b"\n".rjust(_PLACE)
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_decoder: Final = msgspec.json.Decoder(DoorEvent)


class OpenDoors:
    """Those of one phase; the file is made with the first."""

    def __init__(self, folder: Path, phase: str) -> None:
        """Write nothing yet."""
        self._path = _find(folder, phase)
        self._fd: int | None = None
        self._free: list[int] = []
        self._count = 0
        self._lock = Lock()

    def begin(self, event: DoorEvent) -> int:
        """Note a connection by the event that it has if nobody writes one; its place. Raises StoreError."""
        line = canonical.encode_line(event)[-_PLACE:].rjust(_PLACE)
        with storing("writing to", self._path), self._lock:
            if self._fd is None:
                self._fd = os.open(self._path, _FLAGS, 0o600)
            place = self._free.pop() if self._free else self._count
            os.pwrite(self._fd, line, place * _PLACE)
            self._count = max(self._count, place + 1)
        return place

    def end(self, place: int) -> None:
        """A connection has its event. Raises StoreError."""
        with storing("writing to", self._path), self._lock:
            if self._fd is not None:
                os.pwrite(self._fd, _FREE, place * _PLACE)
            self._free.append(place)

    def close(self) -> None:
        """Give the descriptor back; the file stays where a connection has no event. Raises StoreError."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        os.close(fd)
        if len(self._free) == self._count:
            with storing("removing", self._path):
                self._path.unlink(missing_ok=True)


def has_open_doors(folder: Path, phases: tuple[str, ...] = PHASES) -> bool:
    """Whether somebody has, or left, connections under way."""
    return any(os.path.lexists(_find(folder, phase)) for phase in phases)


def read_open(folder: Path, phases: tuple[str, ...]) -> Iterator[DoorEvent]:
    """The events that are left; a line that is none is nobody's."""
    for phase in phases:
        with suppress(OSError), open_plain(_find(folder, phase)) as file:
            yield from filter(None, map(_decode, file))


def forget_open(folder: Path, phases: tuple[str, ...]) -> None:
    """All of them have lines."""
    for phase in phases:
        remove(_find(folder, phase))


def _decode(line: bytes) -> DoorEvent | None:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def _find(folder: Path, phase: str) -> Path:
    return folder / f"doors-{phase}.open"
