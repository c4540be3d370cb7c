import hashlib
import json
from importlib import resources
from typing import Any

import msgspec
import pytest

from labrunner.records.commit import CommitLine, chain_next, chain_start, follows, seal
from labrunner.records.encoding import canonical
from labrunner.records.rows import PredictionRow, ScoreRow, TrialRow, lines_digest

VECTORS: dict[str, Any] = json.loads(
    (resources.files("labrunner.records") / "vectors" / "chain_v1.json").read_text("utf-8")
)


def sha256(*parts: str) -> str:
    return "sha256:" + hashlib.sha256("".join(parts).encode()).hexdigest()


def plain(value: object) -> str:
    """Canonical JSON by the standard library: an encoder that shares nothing with ours."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_chain_start_is_the_vector() -> None:
    assert chain_start(VECTORS["experiment"], VECTORS["schedule"]) == VECTORS["chain_0"]


def test_every_slot_gives_the_chain_and_seal_of_the_vector() -> None:
    chain = VECTORS["chain_0"]
    for slot in VECTORS["slots"]:
        line = msgspec.json.decode(slot["line"], type=CommitLine)
        assert (
            lines_digest((row.encode() for row in slot["rows"]), "run-1")
            == slot["rows_digest"]
            == line.rows_digest
        )
        assert chain_next(chain, line) == slot["chain"] == line.chain
        assert seal(line) == slot["seal"] == line.seal
        assert follows(chain, line)
        chain = line.chain


def test_the_vectors_follow_from_their_own_description_without_our_code() -> None:
    chain = sha256(plain([VECTORS["experiment"], VECTORS["schedule"]]))
    assert chain == VECTORS["chain_0"]
    for slot in VECTORS["slots"]:
        rows = [json.loads(row) for row in slot["rows"]]
        for row in rows:
            row["ids"]["run_id"] = ""
        assert sha256(*(plain(row) + "\n" for row in rows)) == slot["rows_digest"]
        line = json.loads(slot["line"])
        assert sha256(plain(line | {"seal": ""}))[7:23] == slot["seal"]
        zero = {"predictions": 0, "scores": 0, "trials": 0}
        chain = sha256(chain, plain(line | {"run_id": "", "chain": "", "seal": "", "ends": zero}))
        assert chain == slot["chain"]


def test_the_lines_of_the_vectors_are_those_of_the_typed_rows() -> None:
    for slot in VECTORS["slots"]:
        *others, trial = slot["rows"]
        predictions = [row for row in others if "prediction_record" in row]
        scores = [row for row in others if "score_record" in row]
        typed = (
            *(msgspec.json.decode(row, type=PredictionRow) for row in predictions),
            *(_as_written(row) for row in scores),
            _as_written_trial(trial),
        )
        assert [canonical.encode(row).decode() for row in typed] == slot["rows"]


def _as_written(row: str) -> ScoreRow:
    # Typed decoding makes a float of a metric that was written as an integer; the line keeps it.
    value = json.loads(row)["primary_metric_value"]
    return msgspec.structs.replace(msgspec.json.decode(row, type=ScoreRow), primary_metric_value=value)


def _as_written_trial(row: str) -> TrialRow:
    value = json.loads(row)["primary_metric_value"]
    return msgspec.structs.replace(msgspec.json.decode(row, type=TrialRow), primary_metric_value=value)


@pytest.mark.parametrize("field", ["run_id", "trial_id", "attempt", "slot_commit_id", "rows_digest", "chain"])
def test_a_changed_field_breaks_the_seal(field: str) -> None:
    line = msgspec.json.decode(VECTORS["slots"][0]["line"], type=CommitLine)
    changed = msgspec.structs.replace(line, **{field: 7 if field == "attempt" else "x"})
    assert not follows(VECTORS["chain_0"], changed)


def test_another_run_of_the_same_results_has_the_same_chain() -> None:
    line = msgspec.json.decode(VECTORS["slots"][0]["line"], type=CommitLine)
    assert chain_next(VECTORS["chain_0"], msgspec.structs.replace(line, run_id="another")) == line.chain
    rows = [canonical.decode_plain(row) for row in VECTORS["slots"][0]["rows"]]
    for row in rows:
        assert isinstance(row, dict)
        row["ids"]["run_id"] = "a-much-longer-id"
    assert lines_digest(map(canonical.encode, rows), "a-much-longer-id") == line.rows_digest


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "truncated"),
        (b"[]", "an object with ids"),
        (b'{"ids":3}', "an object with ids"),
        (b'{"ids":{}}', "an object with ids"),
        (b"\xff", "malformed"),
        (b'{"ids":{"run_id":"run-2"}}', "a row of run 'run-2', not of 'run-1'"),
        (b'{ "ids":{"run_id":"run-1"}}', "canonical form"),
        (b'{"z":1,"ids":{"run_id":"run-1"}}', "canonical form"),
        (b'{"ids":{"run_id":"run-1"},"z":1.50}', "canonical form"),
    ],
)
def test_a_line_that_is_no_row_has_no_digest(line: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lines_digest([line], "run-1")


def test_only_the_run_of_a_rows_own_ids_is_blanked() -> None:
    row = {"ext": {"run_id": "run-1"}, "ids": {"run_id": "run-1"}}
    blanked = {"ext": {"run_id": "run-1"}, "ids": {"run_id": ""}}
    assert lines_digest([canonical.encode(row)], "run-1") == canonical.digest_bytes(
        canonical.encode_line(blanked)
    )


def test_a_row_that_names_its_run_twice_must_be_canonical_too() -> None:
    with pytest.raises(ValueError, match="canonical form"):
        lines_digest([b'{"ids":{"run_id":"run-1"},"ext":{"run_id":"run-1"}}'], "run-1")
    with pytest.raises(ValueError, match="canonical form"):
        lines_digest([b'{"ext":{"run_id":""},"ids":{"run_id":"run-1"},"z":1.50}'], "run-1")
