"""Marks on committed trials that are not to be used: one line each of `facts/invalidations.jsonl`.

Each mark's `chain` covers the chain before it and the mark, beginning with the run's id; `facts/marks.json`
says how many there are and where their chain ends, so that none can get lost unseen.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import msgspec

from labrunner.records.encoding import canonical


class InvalidationRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `facts/invalidations.jsonl`: a trial not to be used, with who said so and why."""

    schema_version: Literal["invalidation_v1"]
    trial_id: Annotated[str, msgspec.Meta(min_length=1)]
    schedule_idx: Annotated[int, msgspec.Meta(ge=0)]
    reason: str
    who: str
    at: str
    chain: str = ""
    """Short digest over all marks up to this one."""


class MarksRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`facts/marks.json`: how many marks there are."""

    schema_version: Literal["marks_v1"]
    run_id: str
    count: Annotated[int, msgspec.Meta(ge=0)]
    chain: str
    """The last mark's chain."""
    seal: str = ""
    """Short digest of the record without it."""


def chain_marks(before: str, marks: Iterable[InvalidationRow]) -> Iterator[InvalidationRow]:
    """Chain marks to those before them; the first ones to the run's id."""
    chain = before
    for mark in marks:
        blank = msgspec.structs.replace(mark, chain="")
        chain = canonical.digest_bytes(chain.encode(), canonical.encode(blank))[7:23]
        yield msgspec.structs.replace(mark, chain=chain)
