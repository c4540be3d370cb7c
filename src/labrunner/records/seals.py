"""Seals: a short digest that a record carries over itself, so that it can be told from one that was damaged.

A seal shows accidents and careless edits, not a forger who computes it anew.
"""

from typing import Protocol, TypeVar, cast

import msgspec

from labrunner.records.encoding import canonical
from labrunner.records.summary import SummaryRecord


class Sealed(Protocol):
    """A record with a seal."""

    @property
    def seal(self) -> str:
        """The digest of the record without it."""


Record = TypeVar("Record", bound=Sealed)


def seal(record: Record) -> Record:
    """Put a record's seal on it."""
    struct = cast("msgspec.Struct", record)  # every record is one
    blank = msgspec.structs.replace(struct, seal="")
    return cast("Record", msgspec.structs.replace(blank, seal=canonical.digest(blank)[7:23]))


def is_as_written(record: Sealed, data: bytes) -> bool:
    """Whether bytes are a record with its own seal, as our encoder writes it."""
    return seal(record) == record and canonical.encode_line(record) == data


def seal_summary(summary: SummaryRecord) -> SummaryRecord:
    """Put a summary's seal on it, under `ext`."""
    blank = msgspec.structs.replace(summary, ext={k: v for k, v in summary.ext.items() if k != "seal"})
    return msgspec.structs.replace(blank, ext=blank.ext | {"seal": canonical.digest(blank)})
