from typing import Any

import msgspec
import pytest

from labrunner.records import schema
from labrunner.records.completion import ArtifactRef, Evaluator
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import Ids
from labrunner.records.rows import Benchmark, ScoreRow


def make_score(**changes: Any) -> ScoreRow:
    row = ScoreRow(
        schema_version="benchmark_score_record_v1",
        schedule_idx=0,
        slot_commit_id="c",
        attempt=1,
        row_seq=0,
        ids=Ids(run_id="r", trial_id="t", variant_id="v", task_id="k", repl_idx=0),
        benchmark=Benchmark(adapter_id="a", name="n", split="s"),
        verdict="pass",
        primary_metric_name="score",
        primary_metric_value=1.0,
        evaluator=Evaluator(name="grader"),
    )
    return msgspec.structs.replace(row, **changes)


@pytest.mark.parametrize("name", sorted(schema.RECORDS))
def test_committed_schema_is_what_the_type_says(name: str) -> None:
    assert schema.read(name) == schema.render(name)


@pytest.mark.parametrize("name", sorted(schema.RECORDS))
def test_every_object_with_fields_is_closed(name: str) -> None:
    made = schema.generate(name)
    for part in (made, *made.get("$defs", {}).values()):
        assert "properties" not in part or part["additionalProperties"] is False


def test_a_plain_score_row_is_valid_with_its_evaluator_mode_written() -> None:
    line = canonical.encode_line(make_score())
    assert b'"mode":"custom"' in line
    schema.validate("benchmark_score_record_v1", line)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"schedule_idx": -1}, "schedule_idx"),
        ({"attempt": 0}, "attempt"),
        ({"slot_commit_id": ""}, "slot_commit_id"),
        ({"verdict": "maybe"}, "verdict"),
        ({"primary_metric_value": float("nan")}, "primary_metric_value"),
        ({"artifacts": (ArtifactRef(ref="/etc/passwd"),)}, "artifacts[0].ref"),
        ({"metrics": {"a": [1]}}, "metrics.a"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueError, match=r"not a benchmark_score_record_v1") as caught:
        schema.validate("benchmark_score_record_v1", canonical.encode(make_score(**changes)))
    assert f": {path}: " in str(caught.value)


def test_an_unknown_field_is_refused() -> None:
    row = canonical.decode_plain(canonical.encode(make_score()))
    assert isinstance(row, dict)
    with pytest.raises(ValueError, match="surprise"):
        schema.validate("benchmark_score_record_v1", row | {"surprise": 1})


def test_what_others_may_write_by_the_contract_is_valid() -> None:
    row = canonical.decode_plain(canonical.encode(make_score()))
    assert isinstance(row, dict)
    schema.validate(
        "benchmark_score_record_v1", row | {"ts": "2026-01-01T00:00:00Z", "error": {"message": "m"}}
    )


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a status_v1"):
        schema.validate("status_v1", text)


@pytest.mark.parametrize("answer", ["text", {"a": 1}, [1, 2]])
def test_an_agent_result_may_answer_in_three_shapes(answer: object) -> None:
    result = {
        "schema_version": "agent_result_v1",
        "ids": {"run_id": "r", "trial_id": "t", "variant_id": "v", "task_id": "k", "repl_idx": 0},
        "outcome": "success",
        "answer": answer,
    }
    schema.validate("agent_result_v1", result)
    with pytest.raises(ValueError, match="answer"):
        schema.validate("agent_result_v1", result | {"answer": 3})


class _Brief(msgspec.Struct, omit_defaults=True, kw_only=True):
    note: str | None = None


class _Full(msgspec.Struct, kw_only=True):
    note: str | None = None
    parts: tuple[_Brief, ...] = ()


def test_null_is_allowed_exactly_where_the_encoder_writes_it() -> None:
    made = schema.describe_record("full", _Full, {})
    assert {"type": "null"} in made["properties"]["note"]["anyOf"]
    assert made["$defs"]["_Brief"]["properties"]["note"] == {"type": "string"}
