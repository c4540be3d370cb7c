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
    """What of an attempt's calls was paid where the run lies."""

    run_id: str
    here: Mapping[str, Decimal]
    """By what is lent: before the attempt went to a node. What is not named here was not lent."""


def read_away(folder: Path, run_id: str) -> Mapping[str, Decimal]:
    """What of an attempt's calls was paid here, by what was lent for the others."""
    with suppress(OSError, msgspec.DecodeError):  # what is no note of ours lowers no sum
        with open_plain(folder / AWAY) as file:
            note = msgspec.json.decode(file.read(_LONGEST), type=AwayNote)
        if note.run_id == run_id:
            return {name: max(Decimal(), amount) for name, amount in note.here.items()}
    return {}


def write_away(folder: Path, note: AwayNote) -> None:
    """Have it on disk. Raises StoreError."""
    with storing("writing", folder / AWAY):
        put_whole(folder / AWAY, msgspec.json.encode(note))
