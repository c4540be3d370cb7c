"""Options laid over an experiment file before it is checked.

So a value from an option is decoded by the same rules as one in the file, and a message names the option.
Paths given by `--set` start from the experiment file's folder, as if they stood in it.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import Document, FieldPath, Place, parse_value
from labrunner.experiment.authoring.problems import found
from labrunner.experiment.options.option import Laid, PolicyPart, RunOption
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import OPTIONS, find_option


class FieldSet(NamedTuple):
    """A field of a file, set by an option."""

    option: str
    """As messages call it."""
    path: FieldPath
    value: Any


def apply_overrides(document: Document, overrides: Overrides) -> Document:
    """Lay the options over a file."""
    data, places = deepcopy(document.data), dict(document.places)
    for option, path, value in fields_set(overrides):
        _set(data, path, value, option)
        for old in [at for at in places if at[: len(path)] == path]:
            del places[old]
        places[path] = Place(file=option, line=None, folder=document.folder(()))
    return Document(data=data, places=places, refused=document.refused)


def fields_set(overrides: Overrides) -> list[FieldSet]:
    """The fields of a file that options set, in the order in which they are laid over it."""
    return [*map(_set_by_path, overrides.sets), *_set_by_name(overrides)]


def policy_parts(overrides: Overrides) -> dict[str, Any]:
    """Fields of the policy that no file has, as options set them."""
    parts = [option.goal for option in OPTIONS if isinstance(option.goal, PolicyPart)]
    given = {part.field: getattr(overrides, part.override.name) for part in parts}
    return {field: value for field, value in given.items() if value is not None}


def _set_by_path(given: tuple[str, str]) -> FieldSet:
    name, text = given
    option = find_option("set").spell(f"{name}={text}")
    return FieldSet(option, _parse_path(name, option), parse_value(text, option))


def _set_by_name(overrides: Overrides) -> Iterator[FieldSet]:
    done: set[str] = set()
    for option in sorted(OPTIONS, key=lambda each: not each.flags):  # an alias of Python's does not name it
        if isinstance(option.goal, Laid) and (name := option.goal.override.name) not in done:
            done.add(name)
            if (value := getattr(overrides, name)) is not None:
                yield FieldSet(option.label, option.goal.path, _read(option, value))


def _read(option: RunOption, value: Any) -> Any:  # noqa: ANN401 - not checked yet
    """Text is read as it would be in a file."""
    return parse_value(value, option.spell(value)) if isinstance(value, str) else value


def _parse_path(name: str, option: str) -> FieldPath:
    parts = name.split(".")
    if not all(parts):
        raise InputError(option, f"'{name}' names no field; write it like agent.timeout_s=60")
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _set(data: Any, path: FieldPath, value: Any, option: str) -> None:  # noqa: ANN401 - not checked yet
    for number, part in enumerate(path):
        last = number == len(path) - 1
        if isinstance(data, list):
            if not isinstance(part, int) or part >= len(data):
                raise InputError(option, f"there is no item {part}: the list has {len(data)}, counted from 0")
        elif not isinstance(data, dict):
            raise InputError(option, f"'{path[number - 1]}' is {found(data)}, so it has no field '{part}'")
        elif not last:
            data.setdefault(part, {})
        if last:
            data[part] = value
        else:
            data = data[part]
