"""`buffered.jsonl`: which results went into the buffer, so that what is lost with it can be named.

Rules: a line is appended after its result is durable in the buffer, before anybody is told; it is not synced,
so it outlives the process and mostly a power cut. A line may be missing; none ever claims too much.
Opening a run writes the file anew: what is lost is told once.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from labrunner.files.durable import replace, storing
from labrunner.records.encoding import canonical
from labrunner.records.facts.buffered_line import BufferedRow
from labrunner.store.layout import RunPaths

_rows: Final = msgspec.json.Decoder(BufferedRow)


def encode_buffered(run_id: str, slots: Iterable[tuple[int, str]]) -> bytes:
    """Lines for slots, each given with its trial."""
    return b"".join(
        canonical.encode_line(
            BufferedRow(schema_version="buffered_v1", run_id=run_id, schedule_idx=idx, trial_id=trial_id)
        )
        for idx, trial_id in slots
    )


def read_buffered(paths: RunPaths, run_id: str) -> Mapping[int, str]:
    """Each slot that went into the buffer, with its trial; lines that can't be read are left out."""
    rows = (_decode(text) for text in _read(paths).splitlines(keepends=True))
    return {row.schedule_idx: row.trial_id for row in rows if row is not None and row.run_id == run_id}


def find_bad_lines(paths: RunPaths, run_id: str) -> list[int]:
    """Numbers of lines that nobody wrote so; a torn last one is none of them."""
    whole, _, _ = _read(paths).rpartition(b"\n")
    rows = [_decode(text + b"\n") for text in whole.split(b"\n")] if whole else []
    return [number for number, row in enumerate(rows, 1) if row is None or row.run_id != run_id]


def write_buffered(paths: RunPaths, run_id: str, slots: Iterable[tuple[int, str]]) -> None:
    """Let the file say what is in the buffer now."""
    data = encode_buffered(run_id, slots)
    if not paths.buffered.exists() or _read(paths) != data:
        replace(paths.buffered, data, point="open.buffered")


def _read(paths: RunPaths) -> bytes:
    with storing("reading", paths.buffered):
        return paths.buffered.read_bytes() if paths.buffered.exists() else b""


def _decode(text: bytes) -> BufferedRow | None:
    try:
        row = _rows.decode(text)
    except (ValueError, RecursionError):
        return None
    return row if canonical.encode_line(row) == text else None
