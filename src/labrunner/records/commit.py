"""The journal's line and the hash chain over it.

`chain` covers the chain before it and the line's measured content with the run's id blanked, so two runs
with the same results end with the same chain, whatever their ids. `seal` covers the whole line as it
stands (offsets and run id included): it tells a line that was written from one that was damaged.
The chain shows accidents and careless edits, not a forger who computes it anew.
"""

from typing import Literal

import msgspec

from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import Index, Name, Ordinal
from labrunner.records.rows import BLANK_RUN_ID


class RowCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many rows a slot added to each file."""

    predictions: Index
    scores: Index
    trials: Index


class EndOffsets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Size of each file in bytes after this slot's rows."""

    predictions: Index
    scores: Index
    trials: Index


class CommitLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `commits.jsonl`: this slot is committed."""

    schema_version: Literal["commit_v1"]
    run_id: str
    schedule_idx: Index
    trial_id: Name
    attempt: Ordinal
    slot_commit_id: Name
    rows: RowCounts
    ends: EndOffsets
    rows_digest: str
    chain: str
    seal: str


NO_ROWS = EndOffsets(predictions=0, scores=0, trials=0)


def chain_start(experiment_digest: str, schedule_digest: str) -> str:
    """The chain before the first slot."""
    return canonical.digest((experiment_digest, schedule_digest))


def chain_next(before: str, line: CommitLine) -> str:
    """The chain after `line`."""
    covered = msgspec.structs.replace(line, run_id=BLANK_RUN_ID, ends=NO_ROWS, chain="", seal="")
    return canonical.digest_bytes(before.encode(), canonical.encode(covered))


def seal(line: CommitLine) -> str:
    """Short digest of the whole line, its chain included."""
    return canonical.digest(msgspec.structs.replace(line, seal=""))[7:23]


def finish(before: str, line: CommitLine) -> CommitLine:
    """Fill in chain and seal."""
    chained = msgspec.structs.replace(line, chain=chain_next(before, line))
    return msgspec.structs.replace(chained, seal=seal(chained))


def follows(before: str, line: CommitLine) -> bool:
    """Whether `line` is sound and continues the chain `before`."""
    return line.chain == chain_next(before, line) and line.seal == seal(line)
