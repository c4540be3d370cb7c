"""An experiment file as plain values that remember where they stand.

YAML is read with few surprises: `true`, `false` and `null` are the only special words, numbers are written as
in JSON, and everything else (`yes`, `on`, `007`, `1_000`, `12:30`, `2024-01-01`) is text. A key that stands
twice in a map, merge keys (`<<`), tags and recursive aliases are refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import yaml

from labrunner.errors import InputError
from labrunner.experiment.authoring.plain_file import read_authored

FieldPath: TypeAlias = tuple[str | int, ...]
_MAX_REPEATS: Final = 100_000
_DEEPEST: Final = 100
_TOO_DEEP: Final = f"is nested more than {_DEEPEST} levels deep; write it flatter"
_SIGNS: Final = {"task.toml": "harbor", "task.yaml": "terminal-bench"}
"""Files of other people's tasks, and who wrote such."""
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of a file, or an option of the command line."""

    file: str
    line: int | None
    folder: Path
    """What a relative path that stands here starts from."""

    def __str__(self) -> str:
        """The way people and editors write it."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Origin(Protocol):
    """Something that knows where its fields were written."""

    def where(self, path: FieldPath) -> str:
        """Name file, line and field, for a message."""
        ...

    def folder(self, path: FieldPath) -> Path:
        """Give the folder that a relative path in this field starts from."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Plain values, and the place of each."""

    data: dict[str, Any]  # what the author wrote, not checked yet
    places: Mapping[FieldPath, Place]
    refused: Mapping[str, Sequence[InputError]] = field(default_factory=dict)
    """Tasks that stand where the document came from and can't be run, by their ids."""

    def place(self, path: FieldPath) -> Place:
        """Where a field stands; for one that was not written, what it would stand in."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def where(self, path: FieldPath) -> str:
        """Name file, line and field."""
        return f"{self.place(path)}: {dotted(path)}" if path else self.place(()).file

    def folder(self, path: FieldPath) -> Path:
        """Give the folder of the file that the field stands in."""
        return self.place(path).folder


def dotted(path: FieldPath) -> str:
    """Write a field's path as people do."""
    return ".".join(str(part) for part in path)


def read_document(
    path: Path, expected: str = "an experiment file is a map of fields (name, tasks, agent, …)"
) -> Document:
    """Read an experiment file, or another map of fields: `expected` says which."""
    root = Place(file=str(path), line=None, folder=path.parent)
    node = _compose(_read_text(path), str(path))
    if not isinstance(node, yaml.MappingNode):
        found = "nothing" if node is None else "a list" if isinstance(node, yaml.SequenceNode) else "text"
        raise InputError(str(path), f"{expected}, found {found}")
    builder = _Builder(root)
    data = builder.build(node, ())
    return Document(data=data, places=builder.places)


def parse_value(text: str, where: str) -> Any:  # noqa: ANN401 - any plain value may be written
    """Read the value of an option the way it would be read in a file."""
    try:
        node = _compose(text, where)
        return None if node is None else _Builder(Place(file=where, line=None, folder=Path())).build(node, ())
    except InputError as error:  # a line of an option means nothing to people
        raise InputError(where, error.problem) from error


def _read_text(path: Path) -> str:
    try:
        return read_authored(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(str(path), f"there is no such file; {_advise(path.parent)}") from None
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise InputError(str(path), f"can't be read: {error.strerror}") from error


def _advise(folder: Path) -> str:
    """What to do where there is no experiment: in a folder of tasks that others wrote, or in any other."""
    for name, kind in _SIGNS.items():
        if (folder / name).is_file() or any(folder.glob(f"*/{name}")):
            return (
                f"tasks of {kind} lie here, which are run with `{kind}:` before their folder: {kind}:{folder}"
            )
    return "`lab init` writes a runnable one"


def _compose(text: str, file: str) -> yaml.Node | None:
    try:
        _check_depth(text, file)
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
        return node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise InputError(f"{file}{line}", f"is not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise InputError(file, f"is not valid YAML: {str(error).splitlines()[0]}") from error


def _check_depth(text: str, file: str) -> None:
    """Refuse what is nested too deeply: the C parser would end the process when its stack does."""
    longest = max(map(len, text.splitlines()), default=0)
    if text.count("[") + text.count("{") + longest <= _DEEPEST:  # a level takes a bracket or a column
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise InputError(f"{file}:{event.start_mark.line + 1}", _TOO_DEEP)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # the C one is not always built
    """Resolves plain scalars as the module's docstring says."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own way


for _tag, _pattern, _first in (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", "tTfF"),
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("int", r"-?(?:0|[1-9][0-9]*)\Z", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z", "-0123456789"),
):
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(_pattern), list(_first))


class _Builder:
    """Turns YAML nodes into plain values, noting the place of each."""

    def __init__(self, root: Place) -> None:
        self.places: dict[FieldPath, Place] = {(): root}
        self._root = root
        self._open: set[int] = set()
        """The nodes around the one that is being built."""
        self._seen: set[int] = set()
        self._repeats = 0

    def build(self, node: yaml.Node, path: FieldPath) -> Any:  # noqa: ANN401 - any plain value
        self._repeats += id(node) in self._seen
        if id(node) in self._open or self._repeats > _MAX_REPEATS:
            raise self._wrong(node, "an alias that holds itself, or far too many of them: write it out")
        if len(self._open) > _DEEPEST:  # aliases can nest what the file does not
            raise self._wrong(node, _TOO_DEEP)
        self._open.add(id(node))
        self._seen.add(id(node))
        try:
            return self._value(node, path)
        finally:
            self._open.discard(id(node))

    def _value(self, node: yaml.Node, path: FieldPath) -> Any:  # noqa: ANN401 - any plain value
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._map(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._item(item, (*path, number)) for number, item in enumerate(node.value)]
        return self._scalar(node)

    def _map(self, node: yaml.MappingNode, path: FieldPath) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key in values:
                raise self._wrong(key_node, f"'{key}' stands twice in the same map; keep one")
            self._note(key_node, (*path, key))
            values[key] = self.build(value_node, (*path, key))
        return values

    def _item(self, node: yaml.Node, path: FieldPath) -> Any:  # noqa: ANN401 - any plain value
        self._note(node, path)
        return self.build(node, path)

    def _key(self, node: yaml.Node) -> str | int:
        key = self._scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if key == "<<":
            raise self._wrong(node, "merge keys (<<) are not read; write the fields out, or use extends")
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise self._wrong(node, "a field's name must be text; quote it")
        return key

    def _scalar(self, node: yaml.Node) -> Any:  # noqa: ANN401 - any plain value
        match node.tag.removeprefix(_TAG):
            case "str":
                return node.value
            case "null":
                return None
            case "bool":
                return node.value.lower() == "true"
            case "int":
                return self._number(node, int)
            case "float":
                return self._number(node, float)
            case _:
                raise self._wrong(node, f"the tag {node.tag} is not read; write plain values")

    def _number(self, node: yaml.Node, kind: type[int] | type[float]) -> int | float:
        try:
            return kind(node.value)
        except ValueError:  # Python reads no number of more than 4300 digits
            raise self._wrong(node, f"'{node.value[:40]}' is no number that can be used") from None

    def _note(self, node: yaml.Node, path: FieldPath) -> None:
        line = node.start_mark.line + 1
        self.places[path] = Place(file=self._root.file, line=line, folder=self._root.folder)

    def _wrong(self, node: yaml.Node, problem: str) -> InputError:
        return InputError(f"{self._root.file}:{node.start_mark.line + 1}", problem)
