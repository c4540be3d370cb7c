"""A final slot as bytes: the exact lines that its commit appends, checked before anybody stores them.

Rule: lines are made once. A slot that waits in the buffer is committed from the very bytes that it
would have been committed from at once, so the order of completions can't change a committed byte.
"""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.rows import (
    MAX_ROW_BYTES,
    SlotRows,
    TimingRow,
    blank_new_row,
    have_digest,
    is_sealed_timing,
    lines_digest,
    seal_timing,
)


class SlotBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Lines without their line ends, and the digest over all but the timing."""

    schedule_idx: int
    trial_id: str
    attempt: int
    slot_commit_id: str
    predictions: tuple[bytes, ...]
    scores: tuple[bytes, ...]
    trial: bytes
    timing: bytes
    digest: str


class _Payload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`SlotRows` with every row left as the bytes it is."""

    schedule_idx: int
    trial_id: str
    attempt: int
    slot_commit_id: str
    predictions: tuple[msgspec.Raw, ...]
    scores: tuple[msgspec.Raw, ...]
    trial: msgspec.Raw
    timing: msgspec.Raw


_payload_decoder = msgspec.json.Decoder(_Payload)


def encode_slot(run_id: str, rows: SlotRows) -> SlotBytes:
    """Encode and check a slot's rows. Raises ValueError that names the trial and the kind of row."""
    lines: list[bytes] = []
    blanked: list[bytes] = []
    for kind, row in _kinds(rows):
        try:
            line, plain = _encode_row(run_id, rows, kind, row)
            lines.append(line)
            if row is not rows.timing:
                blanked.append(blank_new_row(plain, line, run_id))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"trial {rows.trial_id}, {kind}: {error}") from error
    cut = len(rows.predictions)
    return SlotBytes(
        schedule_idx=rows.schedule_idx,
        trial_id=rows.trial_id,
        attempt=rows.attempt,
        slot_commit_id=rows.slot_commit_id,
        predictions=tuple(lines[:cut]),
        scores=tuple(lines[cut:-2]),
        trial=lines[-2],
        timing=lines[-1],
        digest=canonical.digest_bytes(*blanked),
    )


def _kinds(rows: SlotRows) -> Iterator[tuple[str, msgspec.Struct]]:
    for prediction in rows.predictions:
        yield "benchmark_prediction_record_v1", prediction
    for score in rows.scores:
        yield "benchmark_score_record_v1", score
    yield "trial_record_v1", rows.trial
    yield "trial_timing_v1", rows.timing


def _encode_row(run_id: str, rows: SlotRows, kind: str, row: msgspec.Struct) -> tuple[bytes, object]:
    """Encode a row and check what a reader of the line will see: also returned, as plain JSON."""
    line = canonical.encode(row)
    if isinstance(row, TimingRow):
        line = seal_timing(canonical.encode(msgspec.structs.replace(row, seal="")) if row.seal else line)
    if len(line) >= MAX_ROW_BYTES:
        raise ValueError(f"{len(line)} bytes; a row must stay under {MAX_ROW_BYTES}")
    plain = cast("dict[str, Any]", canonical.decode_plain(line))  # any JSON; the schema says: an object
    schema.validate(kind, plain)
    ids = plain["ids"]
    found = (
        ids["run_id"],
        plain["schedule_idx"],
        ids["trial_id"],
        plain.get("attempt", rows.attempt),
        plain.get("slot_commit_id", rows.slot_commit_id),
    )
    wanted = (run_id, rows.schedule_idx, rows.trial_id, rows.attempt, rows.slot_commit_id)
    if found != wanted:
        raise ValueError(f"the row belongs to {found}, not to {wanted}")
    return line, plain


def encode_payload(slot: SlotBytes) -> bytes:
    """Encode a slot for the buffer: the JSON of its `SlotRows`, each row verbatim."""
    return canonical.encode(
        _Payload(
            schedule_idx=slot.schedule_idx,
            trial_id=slot.trial_id,
            attempt=slot.attempt,
            slot_commit_id=slot.slot_commit_id,
            predictions=tuple(map(msgspec.Raw, slot.predictions)),
            scores=tuple(map(msgspec.Raw, slot.scores)),
            trial=msgspec.Raw(slot.trial),
            timing=msgspec.Raw(slot.timing),
        )
    )


def is_sound_payload(data: bytes, run_id: str, schedule_idx: int, digest: str) -> bool:
    """Whether a payload of the buffer is what was stored with this slot and digest."""
    try:
        payload = _payload_decoder.decode(data)
    except (ValueError, RecursionError):
        return False
    rows = (*payload.predictions, *payload.scores, payload.trial)
    is_same = have_digest((bytes(row) + b"\n" for row in rows), run_id, digest)
    return (
        is_same and payload.schedule_idx == schedule_idx and is_sealed_timing(bytes(payload.timing) + b"\n")
    )


def decode_payload(data: bytes, run_id: str) -> SlotBytes:
    """Take a slot out of the buffer's payload, its digest computed anew. Raises ValueError."""
    payload = _payload_decoder.decode(data)
    predictions = tuple(map(bytes, payload.predictions))
    scores = tuple(map(bytes, payload.scores))
    trial = bytes(payload.trial)
    return SlotBytes(
        schedule_idx=payload.schedule_idx,
        trial_id=payload.trial_id,
        attempt=payload.attempt,
        slot_commit_id=payload.slot_commit_id,
        predictions=predictions,
        scores=scores,
        trial=trial,
        timing=bytes(payload.timing),
        digest=lines_digest((*predictions, *scores, trial), run_id),
    )
