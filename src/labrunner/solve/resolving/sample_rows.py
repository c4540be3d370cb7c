"""Samples as rows of an experiment, and back: what a run records is all that an attempt needs."""

import base64
import binascii
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from labrunner.errors import InputError
from labrunner.experiment import resolved
from labrunner.experiment.authoring.problems import found
from labrunner.experiment.options import kinds
from labrunner.experiment.sandbox_kinds import has_images
from labrunner.experiment.substitution import escape
from labrunner.solve.resolving.compose import is_compose
from labrunner.solve.values.messages import from_plain, to_plain
from labrunner.solve.values.plain import NotPlain, as_plain
from labrunner.solve.values.sample import Sample, input_text
from labrunner.solve.values.task_folder import resolve_path

_OF_ROW: Final = frozenset({"image", "workdir"})
_OF_RESOURCES: Final = frozenset({"cpus", "memory_mb", "pids", "disk_mb"})


def make_rows(samples: Sequence[Sample], where: str) -> list[dict[str, Any]]:
    """Write samples as task rows; those without an id are numbered from 1."""
    rows: list[dict[str, Any]] = []
    for number, sample in enumerate(samples, 1):
        if not isinstance(sample, Sample):
            raise InputError(where, f"sample {number} of the dataset must be a Sample, {_found(sample)}")
        id = str(number) if sample.id is None else str(sample.id)
        _check(sample, id, where)
        rows.append(_row(sample, id, where))
    return rows


def read_sample(task: resolved.TaskSpec) -> Sample:
    """Take a sample back from a resolved task."""
    given = task.input
    choices = None
    asked: Any = given
    if isinstance(given, dict):
        choices = given.get("choices")
        asked = [from_plain(each) for each in given["messages"]] if "messages" in given else given["prompt"]
    return Sample(
        input=asked,
        choices=choices,
        target=task.target if task.has_target else "",
        id=task.id,
        metadata=dict(task.metadata),
        group=task.group,
    )


def record_metadata(given: Mapping[str, Any] | None, whose: str, where: str) -> dict[str, Any]:
    """Metadata as a run records it: JSON that is equal to what was given."""
    try:
        plain: dict[str, Any] = as_plain(dict(given or {}))
    except NotPlain as error:
        told = f"metadata of {whose} must be JSON, since it is recorded; {error}"
        raise InputError(where, told) from error
    return plain


def setup_section(script: str) -> dict[str, Any]:
    """A setup script, or the file that holds one, as a setup's command."""
    text = _read_script(script)
    first, _, _ = text.partition("\n")
    shell = shlex.split(first[2:]) if first.startswith("#!") else ["/bin/sh"]
    return {"command": [escape(word) for word in (*shell, "-c", text)]}


def _found(value: object) -> str:
    hint = "; write Sample(**record)" if isinstance(value, dict) else ""
    return f"found {found(value)}{hint}"


def _check(sample: Sample, id: str, where: str) -> None:
    """Refuse fields that hold something else than they say."""
    kinds.TEXT_OR_TEXTS.check(f"{where}: target of sample {id}", sample.target)
    kinds.TEXTS.check(f"{where}: choices of sample {id}", sample.choices)
    kinds.MAP_OF_TEXTS.check(f"{where}: files of sample {id}", sample.files)
    kinds.TEXT.check(f"{where}: setup of sample {id}", sample.setup)


def _row(sample: Sample, id: str, where: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": id,
        "input": _input(sample, id, where),
        "target": sample.target,
        "metadata": record_metadata(sample.metadata, f"sample {id}", where),
    }
    if sample.files:
        row["files"] = {path: _content(path, value, where) for path, value in sample.files.items()}
    if sample.setup is not None:
        row["setup"] = setup_section(sample.setup)
    if sample.group is not None:
        row["group"] = sample.group
    if sample.sandbox is not None:
        row |= _own_sandbox(sample.sandbox, id, where)
    return row


def _input(sample: Sample, id: str, where: str) -> object:
    if not isinstance(sample.input, str | list):
        raise InputError(
            where, f"input of sample {id} must be text or messages, found {type(sample.input).__name__}"
        )
    if isinstance(sample.input, str) and sample.choices is None:
        return sample.input
    plain: dict[str, Any] = {"prompt": input_text(sample.input)}
    if not isinstance(sample.input, str):
        plain["messages"] = [to_plain(message) for message in sample.input]
    if sample.choices is not None:
        plain["choices"] = list(sample.choices)
    return plain


def _own_sandbox(given: object, id: str, where: str) -> dict[str, Any]:
    """What one sample may have of its own: image, folder and limits, never another kind of sandbox."""
    if isinstance(given, tuple) and len(given) == 2 and has_images(given[0]):
        if is_compose(str(given[1])):
            told = "a compose file of its own; name image, workdir and limits instead, or give it to the task"
            raise InputError(where, f"sandbox of sample {id}: {given[1]}: {told}")
        return {"image": given[1]}
    if isinstance(given, dict) and set(given) <= _OF_ROW | _OF_RESOURCES:
        resources = {name: value for name, value in given.items() if name in _OF_RESOURCES}
        return {name: value for name, value in given.items() if name in _OF_ROW} | {"resources": resources}
    raise InputError(
        where,
        f"sandbox of sample {id} may name {', '.join(sorted(_OF_ROW | _OF_RESOURCES))}, found {given!r}",
    )


def _content(path: str, value: str, where: str) -> object:
    """A file's content: in place, from a data address, or from the file that the text names."""
    if value.startswith("data:"):
        return _data_address(path, value, where)
    if "\n" not in value and 0 < len(value) < 256:
        named: Path = resolve_path(value)
        try:
            if named.exists():
                return {"source": str(named)}
        except OSError:
            return value
    return value


def _data_address(path: str, value: str, where: str) -> str:
    head, _, body = value.partition(",")
    try:
        data = base64.b64decode(body, validate=True) if head.endswith(";base64") else unquote_to_bytes(body)
        return data.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InputError(
            where, f"file {path}: its data address holds no text ({error}); put it into a file and name that"
        ) from error


def _read_script(script: str) -> str:
    if "\n" in script or len(script) > 255:
        return script
    path = resolve_path(script)
    return path.read_text(encoding="utf-8") if path.is_file() else script
