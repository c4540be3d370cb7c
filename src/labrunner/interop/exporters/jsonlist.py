"""A JSON list that grows in a file, for lists that memory should not hold."""

import os
import shutil
from typing import IO

import msgspec


class JsonList:
    """A list in a file that somebody else opens and closes."""

    def __init__(self, file: IO[bytes]) -> None:
        """Begin an empty one."""
        self._file = file
        self._next = b"["

    def append(self, value: object) -> None:
        """Add a value."""
        self._file.write(self._next + msgspec.json.encode(value))
        self._next = b","

    def copy_to(self, target: IO[bytes]) -> None:
        """Write the list as it is so far."""
        self._file.seek(0)
        shutil.copyfileobj(self._file, target)
        self._file.seek(0, os.SEEK_END)
        target.write(b"[]" if self._next == b"[" else b"]")
