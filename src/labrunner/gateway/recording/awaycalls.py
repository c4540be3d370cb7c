"""Calls that were paid of what a node's gateway had borrowed: `calls.away`, beside them.

Rules: it is on disk before the first of such calls comes home, so that no sum counts them beside the loan
that they were paid of. What another run has written says nothing: its results were taken over.
"""

from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from labrunner.files.durable import put_whole, storing
from labrunner.files.strangers.hostile import open_plain

AWAY: Final = "calls.away"
_LONGEST: Final = 1 << 16


class AwayNote(msgspec.Struct, frozen=True, kw_only=True):
    """What of an attempt's calls was paid elsewhere, by what is lent. What is not named was not lent."""

    run_id: str
    here: Mapping[str, Decimal] = {}
    """While they come home: what is known to be paid here, because it was before."""
    away: Mapping[str, Decimal] = {}
    """Once they are home: what was paid elsewhere. What comes after them is paid here."""

    def count_here(self, paid: Mapping[str, Decimal]) -> dict[str, Decimal]:
        """What was paid here, of what the attempt's calls took in all."""
        nothing = Decimal()
        left = {
            name: max(nothing, paid.get(name, nothing) - max(nothing, amount))
            for name, amount in self.away.items()
        }
        return {**paid, **{name: max(nothing, amount) for name, amount in self.here.items()}, **left}


def read_away(folder: Path, run_id: str) -> AwayNote | None:
    """The note of an attempt whose calls, or some of them, were paid elsewhere."""
    with suppress(OSError, msgspec.DecodeError):  # what is no note of ours lowers no sum
        with open_plain(folder / AWAY) as file:
            note = msgspec.json.decode(file.read(_LONGEST), type=AwayNote)
        return note if note.run_id == run_id else None
    return None


def write_away(folder: Path, note: AwayNote) -> None:
    """Have it on disk. Raises StoreError."""
    with storing("writing", folder / AWAY):
        put_whole(folder / AWAY, msgspec.json.encode(note))
