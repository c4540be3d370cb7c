"""Writes the tables of records for the pages: `python -m labrunner.records.records_page`.

Rule: fields and types come from the schemas, meanings from the text under each field in the source.
"""

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from labrunner.records import agent_result, commit, completion, rows, run, schema, summary
from labrunner.records.encoding import ids
from labrunner.records.facts import door_event, earlier, invalidation, model_call, outage_note

CAUSES: Final = "../errors.md#causes"
SCHEMAS: Final = "../../src/labrunner/records/schemas"
_MODULES: Final = (
    agent_result,
    commit,
    completion,
    door_event,
    earlier,
    ids,
    invalidation,
    model_call,
    outage_note,
    rows,
    run,
    summary,
)
_OFTEN: Final[Mapping[str, str]] = {
    "schema_version": "Name and version of the record.",
    "schedule_idx": "The slot's position in the fixed order, from 0.",
    "slot_commit_id": "Names one publication of the slot: the same in every run of the experiment.",
    "attempt": "Number of the attempt, from 1.",
    "row_seq": "The row's number within its slot, from 0.",
    "ids": "Whose row it is.",
    "run_id": "The run.",
    "trial_id": "The trial: made from variant, task and replication, never from the run.",
    "repl_idx": "The replication, from 0.",
}
"""Meanings of fields that many records have."""
_WORDS: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "map",
    "array": "list",
    "null": "null",
}


def render() -> str:
    """Give a section for each record, then one for each part that records are made of."""
    schemas = {name: schema.generate(name) for name in sorted(schema.RECORDS)}
    records = [_record(name, whole) for name, whole in schemas.items()]
    parts = {title: part for whole in schemas.values() for title, part in whole.get("$defs", {}).items()}
    inner = [_part(title, part) for title, part in sorted(parts.items()) if "properties" in part]
    return "\n\n".join([*records, "### Parts of records", *inner]) + "\n"


def _record(name: str, whole: schema.JsonSchema) -> str:
    kind = schema.RECORDS[name]
    lines = [f"### {name}", "", inspect.cleandoc(kind.__doc__ or ""), ""]
    lines += [f"Schema: [`{name}.json`]({SCHEMAS}/{name}.json)", ""]
    return "\n".join([*lines, *_table(kind, whole)])


def _part(title: str, part: schema.JsonSchema) -> str:
    kind = _find(title)
    return "\n".join([f"#### {title}", "", inspect.cleandoc(kind.__doc__ or ""), "", *_table(kind, part)])


def _table(kind: type[msgspec.Struct], whole: schema.JsonSchema) -> Iterator[str]:
    texts = dict(_field_texts(kind))
    required = whole.get("required", ())
    yield from ("| field | value | meaning |", "|---|---|---|")
    for name, value in whole["properties"].items():
        written = _type(value) + ("" if name in required else "; may be left out")
        yield f"| `{name}` | {written} | {texts.get(name, _OFTEN.get(name, ''))} |"


def _type(value: Mapping[str, Any]) -> str:
    match value:
        case {"$ref": ref}:
            title = ref.rpartition("/")[2]
            return f"[{title}]({CAUSES if title == 'Cause' else f'#{title.lower()}'})"
        case {"enum": choices}:
            return ", ".join("null" if choice is None else f"`{choice}`" for choice in choices)
        case {"anyOf": choices}:
            written = dict.fromkeys(_type(choice) for choice in choices)
            return " or ".join(
                each for each in written if not (each == "whole number" and "number" in written)
            )
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": dict() as items}:
            return f"map of name to {_type(items)}"
        case {"type": word}:
            return _WORDS[word]
        case _:
            return "any JSON"


def _find(title: str) -> type[msgspec.Struct]:
    found: list[type[msgspec.Struct]] = [vars(m)[title] for m in _MODULES if title in vars(m)]
    return found[0]


def _field_texts(kind: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """The text that stands under a field, by the field's name in JSON."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    written = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    for statement, following in itertools.pairwise(body):
        match (statement, following):
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                yield written[name], re.sub(r"\bNone\b", "null", " ".join(text.split()))
            case _:
                pass


if __name__ == "__main__":
    sys.stdout.write(render())
