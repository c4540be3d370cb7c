"""What an importer made of foreign tasks, written as an experiment that people can read, change and keep.

Rules: nothing is ever overwritten, and the folder appears whole or not at all. What is written asks the same
question as the import itself, by its digest: that is tried before the folder gets its name.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.authoring.document import Document
from labrunner.experiment.authoring.inheritance import read_with_bases
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import resolve_document
from labrunner.experiment.resolving.selection import matches
from labrunner.experiment.sources.importers import read_import
from labrunner.files.descriptors import sync_path
from labrunner.files.draft import draft_beside, put_in_place
from labrunner.files.durable import storing

FILE: Final = "experiment.yaml"
TASKS: Final = "tasks.jsonl"
FOLDERS: Final = "tasks"
_PLACES: Final = (("build",), ("workspace",), ("grader", "dir"), ("solution", "dir"))
"""Fields of a task that name files beside it."""
_ANY_AGENT: Final = Overrides(sets=(("agent.command", "[run]"),))
"""Only so that a digest can be worked out: imported tasks bring no agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written."""

    folder: Path
    tasks: int
    left_out: Mapping[str, Sequence[InputError]]
    """Tasks that can't be run here, with the reasons."""
    agent: str | None
    """An agent that it can be tried with; None where it names agents of its own."""


def write_import(
    kind: str, source: Path, folder: Path, *, patterns: Sequence[str] = (), skips_refused: bool = False
) -> Written:
    """Write what an importer makes of a source as an experiment. Raises InputError, InputErrors."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "is there already; choose another folder")
    document = choose(read_import(kind, source), patterns)
    left_out = {task: document.refused[task] for task in _ids(document) if task in document.refused}
    if left_out and not skips_refused:
        raise _refuse(left_out)
    document = _without(document, left_out)
    with draft_beside(folder) as drafts, storing("writing an experiment to", folder):
        made = drafts / folder.name
        _write(document, made, sorted(left_out))
        _compare(document, made, f"{kind}:{source}")
        _sync(made)
        put_in_place(made, folder, replaces=False)
    return Written(
        folder=folder, tasks=len(document.data["tasks"]), left_out=left_out, agent=_find_agent(document)
    )


def _find_agent(document: Document) -> str | None:
    parts = [document.data, *document.data.get("variants", ())]
    if any({"use", "command"} & set(part.get("agent", ())) for part in parts):
        return None
    return "oracle" if all(row.get("solution") for row in document.data["tasks"]) else "noop"


def choose(document: Document, patterns: Sequence[str]) -> Document:
    """The same document with the tasks alone whose ids match. Raises InputError."""
    ids = _ids(document)
    for pattern in patterns:
        if not any(matches(each, pattern) for each in ids):
            raise InputError(flag("sample_id"), f"no task's id matches {pattern!r}")
    unwanted = {each: () for each in ids if patterns and not any(matches(each, one) for one in patterns)}
    return _without(document, unwanted)


def _ids(document: Document) -> list[str]:
    return [str(row["id"]) for row in document.data["tasks"]]


def _without(document: Document, left_out: Mapping[str, object]) -> Document:
    rows = [row for row in document.data["tasks"] if row["id"] not in left_out]
    if not rows:
        raise InputError(document.where(()), "none of its tasks can be run here; `lab doctor` lists why")
    refused = {task: why for task, why in document.refused.items() if task not in left_out}
    return Document(data={**document.data, "tasks": rows}, places=document.places, refused=refused)


def _refuse(left_out: Mapping[str, Sequence[InputError]]) -> InputErrors:
    reasons = [reason for reasons in left_out.values() for reason in reasons]
    count = "1 task" if len(left_out) == 1 else f"{len(left_out)} tasks"
    told = f"{count} can't be run here; choose others with {flag('sample_id')}"
    return InputErrors([*reasons[:50], InputError("", f"{told}, or leave these out with --skip-refused")])


def _write(document: Document, made: Path, left_out: Sequence[str]) -> None:
    made.mkdir()
    fields = {**document.data, "tasks": TASKS}
    if left_out:
        fields["metadata"] = {**fields.get("metadata", {}), "left_out": list(left_out)}
    rows = [_take_files(row, document.folder(()), made) for row in document.data["tasks"]]
    (made / FILE).write_text(_dump(fields), encoding="utf-8")
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    (made / TASKS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _take_files(row: Mapping[str, Any], base: Path, made: Path) -> dict[str, Any]:
    """A row whose files lie beside it."""
    taken = dict(row)
    for place in _PLACES:
        if (path := _find(taken, place)) is not None:
            target = Path(FOLDERS) / _folder_name(str(row["id"])) / Path(path).name
            _copy(base / path, made / target)
            taken = _put(taken, place, str(target))
    for name, content in (row.get("files") or {}).items():
        if isinstance(content, dict):
            target = Path(FOLDERS) / _folder_name(str(row["id"])) / "files" / name
            _copy(base / content["source"], made / target)
            taken = _put(taken, ("files", name), {"source": str(target)})
    return taken


def _find(row: Mapping[str, Any], place: tuple[str, ...]) -> str | None:
    value: Any = row
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _put(row: Mapping[str, Any], place: tuple[str, ...], value: object) -> dict[str, Any]:
    first, *rest = place
    return {**row, first: _put(row[first], tuple(rest), value) if rest else value}


def _folder_name(task: str) -> str:
    return task.replace("/", "_").lstrip(".") or "task"


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _compare(document: Document, made: Path, target: str) -> None:
    """Refuse to hand out what asks another question than the import."""
    asked, written = _digest(document, target), _digest(read_with_bases(made / FILE), target)
    if asked != written:
        raise AssertionError(f"{target} was written with the digest {written}, expected {asked}")


def _digest(document: Document, target: str) -> str:
    resolved: Experiment = resolve_document(document, _ANY_AGENT, target)
    return resolved.digest


def _sync(made: Path) -> None:
    for path in (made, *_below(made)):
        if not path.is_symlink():
            sync_path(path)


def _below(folder: Path) -> Iterator[Path]:
    yield from folder.rglob("*")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = (
        "|" if "\n" in value and not any(line.endswith((" ", "\t")) for line in value.split("\n")) else None
    )
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _dump(fields: Mapping[str, Any]) -> str:
    text: str = yaml.dump(dict(fields), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text
