import hashlib
import json
from typing import Any

import msgspec
import pytest

from labrunner.records.encoding import canonical
from labrunner.records.rows import MAX_ROW_BYTES, SlotRows
from labrunner.store.rows.slot_bytes import decode_payload, encode_payload, encode_slot
from tests.kit.store.sample import make_rows


def changed(part: str, **changes: Any) -> SlotRows:
    rows = make_rows(1)
    value = getattr(rows, part)
    if isinstance(value, tuple):
        return msgspec.structs.replace(rows, **{part: (msgspec.structs.replace(value[0], **changes),)})
    return msgspec.structs.replace(rows, **{part: msgspec.structs.replace(value, **changes)})


@pytest.mark.parametrize("idx", range(4))
def test_what_comes_back_from_the_buffer_is_the_same_bytes(idx: int) -> None:
    slot = encode_slot("run-1", make_rows(idx))
    assert decode_payload(encode_payload(slot), "run-1") == slot


@pytest.mark.parametrize("idx", range(4))
def test_payload_is_the_json_of_the_rows(idx: int) -> None:
    payload = encode_payload(encode_slot("run-1", make_rows(idx)))
    assert msgspec.json.decode(payload, type=SlotRows) == make_rows(idx)


@pytest.mark.parametrize("idx", range(4))
def test_digest_is_that_of_all_rows_but_the_timing_with_the_run_blanked(idx: int) -> None:
    rows = make_rows(idx)
    hashed = hashlib.sha256()
    for row in (*rows.predictions, *rows.scores, rows.trial):
        plain = msgspec.to_builtins(row)
        plain["ids"]["run_id"] = ""
        line = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        hashed.update(f"{line}\n".encode())
    assert encode_slot("run-1", rows).digest == f"sha256:{hashed.hexdigest()}"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (changed("scores", primary_metric_value=float("inf")), "benchmark_score_record_v1: .*metric_value"),
        (changed("scores", verdict="great"), "benchmark_score_record_v1: .*verdict"),
        (changed("scores", attempt=2), "belongs to"),
        (changed("scores", slot_commit_id="other"), "belongs to"),
        (changed("trial", schedule_idx=2), "trial_record_v1: the row belongs to"),
        (changed("timing", schedule_idx=2), "trial_timing_v1: the row belongs to"),
        (changed("trial", flags=("x" * MAX_ROW_BYTES,)), "a row must stay under 65536"),
        (changed("scores", ext={"f": object()}), "benchmark_score_record_v1: "),
        (changed("scores", ext={"f": "\ud800"}), "benchmark_score_record_v1: "),
        (make_rows(1, run_id="another"), "belongs to"),
    ],
)
def test_a_row_that_must_not_be_written_names_trial_and_kind(rows: SlotRows, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        encode_slot("run-1", rows)
    assert f"trial {rows.trial_id}, " in str(caught.value)


def test_a_row_just_under_the_limit_is_accepted() -> None:
    room = MAX_ROW_BYTES - len(canonical.encode(changed("trial", flags=("",)).trial)) - 1
    slot = encode_slot("run-1", changed("trial", flags=("x" * room,)))
    assert len(slot.trial) == MAX_ROW_BYTES - 1


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]", b"\x00" * 30])
def test_a_payload_that_is_none_is_a_value_error(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Input|Object|Expected"):
        decode_payload(payload, "run-1")
