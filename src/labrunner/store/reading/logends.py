"""Ends of logs, while they are written or afterwards, without following a link or waiting for anything."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from labrunner.files.strangers.hostile import open_plain

END_BYTES: Final = 64 * 1024
TAKEN_BYTES: Final = 2**20
"""At a time: who follows a log must not fall behind it."""
_LONGEST_LINE: Final = 16 * 1024


def read_end(path: Path, size: int = END_BYTES) -> bytes | None:
    """The last bytes of a plain file; None where there is none."""
    found = _read(path, None, size)
    return None if found is None else found[0]


@dataclass(slots=True)
class LogEnd:
    """A log that is followed: hands out whole lines, each once."""

    path: Path
    _at: int = 0
    _held: bytes = field(default=b"")
    """The beginning of a line that is not whole yet."""

    def skip(self, size: int = END_BYTES) -> None:
        """Pass over all but the last bytes, for those who begin late."""
        found = _read(self.path, None, 0)
        if found is not None:
            self._at = max(0, found[1] - size)

    def take(self) -> bytes:
        """What was written since; a line without its end waits, unless it is very long."""
        found = _read(self.path, self._at, TAKEN_BYTES)
        if found is None or not found[0]:
            return b""
        data, self._at = found
        data = self._held + data
        cut = len(data) if len(data) > _LONGEST_LINE and b"\n" not in data else data.rfind(b"\n") + 1
        self._held = data[cut:]
        return data[:cut]

    def take_rest(self) -> bytes:
        """Everything that is left, at the end."""
        data = b""
        while more := self.take():
            data += more
        rest, self._held = self._held, b""
        return data + rest


def _read(path: Path, at: int | None, size: int) -> tuple[bytes, int] | None:
    """Bytes from an offset, or the last ones, and where they end."""
    try:
        with open_plain(path) as file:
            end = os.fstat(file.fileno()).st_size
            start = max(0, end - size) if at is None else at
            data = os.pread(file.fileno(), size, start)
            return data, end if at is None else start + len(data)
    except OSError:
        return None
