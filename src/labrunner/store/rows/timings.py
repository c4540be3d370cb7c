"""Lines of `timings.jsonl`: no digest of the journal covers them, so each carries a seal of its own.

Rule: line n belongs to slot n, to the same trial of the same run as the journal's line n.
"""

from typing import Final

import msgspec

from labrunner.records.commit import CommitLine
from labrunner.records.rows import is_sealed_timing


class _Whose(msgspec.Struct):
    run_id: str
    trial_id: str


class _TimingHead(msgspec.Struct):
    schedule_idx: int
    ids: _Whose


_heads: Final = msgspec.json.Decoder(_TimingHead)


def find_wrong_timing(text: bytes, line: CommitLine) -> str | None:
    """What is wrong with a line that should be the timing of a committed slot; None when nothing is."""
    if not text:
        return "is missing"
    if not is_sealed_timing(text):
        return "is not as it was written: its seal does not fit"
    try:
        head = _heads.decode(text)
    except (ValueError, RecursionError):
        return "is not a timing row"
    found = (head.ids.run_id, head.schedule_idx, head.ids.trial_id)
    wanted = (line.run_id, line.schedule_idx, line.trial_id)
    return None if found == wanted else f"belongs to {found}, not to {wanted}"
