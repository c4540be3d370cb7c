"""Calls under way, on disk: `calls.open`, the rows that they have should the gateway die before they end.

Rules: a line is written before its request goes out, and not synced: it outlives the process, not the
machine. Whoever comes after a gateway that died makes rows of the lines that have none, once. The file goes
with its last call.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from labrunner.files.descriptors import write_all
from labrunner.files.durable import storing
from labrunner.files.strangers.hostile import open_plain
from labrunner.files.strangers.removal import remove
from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import CallRow

OPEN: Final = "calls.open"
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_decoder: Final = msgspec.json.Decoder(CallRow)


class OpenCalls:
    """Those of one attempt; the file is made with the first."""

    def __init__(self, folder: Path) -> None:
        """Write nothing yet."""
        self._path = folder / OPEN
        self._fd: int | None = None
        self._begun: set[str] = set()

    def begin(self, row: CallRow) -> None:
        """Note a call that is about to be sent. Raises StoreError."""
        with storing("writing to", self._path):
            if self._fd is None:
                self._fd = os.open(self._path, _FLAGS, 0o600)
            write_all(self._fd, canonical.encode_line(row))
        self._begun.add(row.call_id)

    def end(self, call_id: str) -> None:
        """A call has its row."""
        self._begun.discard(call_id)

    def close(self) -> None:
        """Give the descriptor back; the file stays where a call has no row. Raises StoreError."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        os.close(fd)
        if not self._begun:
            with storing("removing", self._path):
                self._path.unlink(missing_ok=True)


def read_open(folder: Path) -> list[CallRow]:
    """The rows that calls under way have if nobody writes others; a line that is none is nobody's."""
    found: list[CallRow] = []
    with suppress(OSError), open_plain(folder / OPEN) as file:
        for line in file:
            with suppress(msgspec.DecodeError, RecursionError):
                found.append(_decoder.decode(line))
    return found


def forget_open(folder: Path) -> None:
    """All of them have rows."""
    remove(folder / OPEN)
