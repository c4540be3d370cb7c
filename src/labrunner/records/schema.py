"""JSON Schemas (2020-12) of every record on disk: one file each in `schemas/`, made from the record types.

Rule: what is written is validated against these files, in production too. `python -m
labrunner.records.schema` writes the files anew after a type has changed; a test fails while they are stale.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from labrunner.records.agent_result import AgentResult, MetricValue, ResultError
from labrunner.records.commit import CommitLine
from labrunner.records.encoding import canonical
from labrunner.records.facts.buffered_line import BufferedRow
from labrunner.records.facts.door_event import DoorEvent
from labrunner.records.facts.earlier import EarlierRow
from labrunner.records.facts.invalidation import InvalidationRow, MarksRecord
from labrunner.records.facts.model_call import BodyRow, CallRow
from labrunner.records.facts.outage_note import OutagesRecord
from labrunner.records.rows import PredictionRow, ScoreRow, TimingRow, TrialRow
from labrunner.records.run import CrashRecord, RunRecord, StatusRecord
from labrunner.records.summary import SummaryRecord

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

JsonSchema = dict[str, Any]  # a JSON Schema is any JSON

RECORDS: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType(
    {
        "agent_result_v1": AgentResult,
        "benchmark_prediction_record_v1": PredictionRow,
        "benchmark_score_record_v1": ScoreRow,
        "benchmark_summary_v1": SummaryRecord,
        "buffered_v1": BufferedRow,
        "call_body_v1": BodyRow,
        "commit_v1": CommitLine,
        "crash_v1": CrashRecord,
        "door_event_v1": DoorEvent,
        "earlier_attempts_v1": EarlierRow,
        "invalidation_v1": InvalidationRow,
        "marks_v1": MarksRecord,
        "model_call_v1": CallRow,
        "outages_v1": OutagesRecord,
        "run_v1": RunRecord,
        "status_v1": StatusRecord,
        "trial_record_v1": TrialRow,
        "trial_timing_v1": TimingRow,
    }
)

# The runtime contract allows these in records that others write; our own rows never hold a time or an error.
_ALSO_ALLOWED: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "benchmark_prediction_record_v1": {"ts": str, "metrics": dict[str, MetricValue]},
        "benchmark_score_record_v1": {"ts": str, "error": ResultError},
    }
)
_ALWAYS_WRITTEN: Final = MappingProxyType({"Evaluator": ("mode",)})


def generate(name: str) -> JsonSchema:
    """Make the schema of a record from its type."""
    return describe_record(name, RECORDS[name], _ALSO_ALLOWED.get(name, {}))


def describe_record(name: str, record: type[msgspec.Struct], extra: Mapping[str, Any]) -> JsonSchema:
    """Make the schema of any type, with properties that readers find in addition."""
    (root, *others), defs = msgspec.json.schema_components([record, *extra.values()])
    top = defs.pop(root["$ref"].rpartition("/")[2])
    top["properties"] |= dict(zip(extra, others, strict=True))
    brief = {
        kind.__name__ for kind in _find_structs(msgspec.inspect.multi_type_info([record, *extra.values()]))
    }
    for title, definition in [(record.__name__, top), *defs.items()]:
        _tighten(definition, _ALWAYS_WRITTEN.get(title, ()), leaves_out_null=title in brief)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **{key: value for key, value in top.items() if key != "title"},
        **({"$defs": defs} if defs else {}),
    }


def _find_structs(parts: Iterable[object]) -> Iterator[type[msgspec.Struct]]:
    """Struct types, at any depth, whose encoder leaves out fields that have their default."""
    for part in parts:
        if isinstance(part, msgspec.inspect.StructType) and part.cls.__struct_config__.omit_defaults:
            yield part.cls
        if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field):
            yield from _find_structs(getattr(part, name) for name in part.__struct_fields__)
        elif isinstance(part, tuple):
            yield from _find_structs(part)


def _tighten(definition: JsonSchema, always: tuple[str, ...], *, leaves_out_null: bool) -> None:
    """Say what the encoder does: where defaults are left out, a null that is one is never written."""
    for field in definition.get("properties", {}).values():
        is_null = "default" in field and field.pop("default") is None
        if is_null and leaves_out_null and "anyOf" in field:
            rest = [choice for choice in field.pop("anyOf") if choice != {"type": "null"}]
            field.update(rest[0] if len(rest) == 1 else {"anyOf": rest})
    if always:
        definition["required"] = [*definition["required"], *always]


def validate(name: str, value: object) -> None:
    """Check a record (its bytes, or a plain JSON value) against its schema.

    Raises ValueError with the path of the field that is wrong.
    """
    plain = _decode(name, value) if isinstance(value, bytes) else value
    validator = load(name)
    if validator.is_valid(plain):
        return
    error = next(validator.iter_errors(plain))
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    raise ValueError(f"not a {name}: {path.lstrip('.') or 'the record'}: {_clip(error.message)}")


def _decode(name: str, data: bytes) -> object:
    try:
        return canonical.decode_plain(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a {name}: not JSON: {error}") from error


def _clip(text: str, longest: int = 300) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


@cache
def load(name: str) -> "Draft202012Validator":
    """Compile a schema, once a process."""
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(json.loads(read(name)))


def read(name: str) -> str:
    """Read a schema's file."""
    return (resources.files("labrunner.records") / "schemas" / f"{name}.json").read_text("utf-8")


def render(name: str) -> str:
    """Write a schema as its file holds it."""
    return json.dumps(generate(name), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_all(folder: Path) -> None:
    """Write every schema's file anew."""
    for name in RECORDS:
        (folder / f"{name}.json").write_text(render(name), "utf-8")


if __name__ == "__main__":
    write_all(Path(__file__).parent / "schemas")
