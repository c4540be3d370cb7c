"""Which results went into a run's buffer: one line each of `buffered.jsonl`.

A line is appended after its result is durable in the buffer, and is not synced: a power cut may lose lines,
and none of them ever claims what was not there.
"""

from typing import Literal

import msgspec

from labrunner.records.encoding.ids import Index, Name


class BufferedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `buffered.jsonl`: a finished trial that waits for its turn."""

    schema_version: Literal["buffered_v1"]
    run_id: str
    schedule_idx: Index
    trial_id: Name
