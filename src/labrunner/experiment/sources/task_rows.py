"""Rows of tasks as they come from a source: what was written, not checked yet, and where it stands."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labrunner.experiment.authoring.document import FieldPath, Origin, dotted
from labrunner.experiment.authoring.problems import Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """What a source is asked for."""

    text: str
    """What stands behind `name:`, or the path of a file as it was written."""
    folder: Path
    """What a relative path starts from."""
    where: str
    """The field that asks, for messages."""
    known: Collection[str]
    """Names of a task's fields."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Fields of a task, and what the file calls each, where it has names of its own; empty: none."""
    problems: Problems
    """Takes what is wrong with single rows, so that all is told in one go. What is wrong with the whole may
    be raised as an InputError."""

    @property
    def path(self) -> Path:
        """The file that is asked for."""
        return self.folder / self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrigin:
    """A row of a task file."""

    file: str
    mark: str
    """`:12` for line 12, or the task's number where lines mean nothing."""
    base: Path

    def where(self, path: FieldPath) -> str:
        """Name file, line and field."""
        return f"{self.file}{self.mark}: {dotted(path)}" if path else f"{self.file}{self.mark}"

    def folder(self, path: FieldPath) -> Path:  # noqa: ARG002 - a task file has one folder for all fields
        """Give the task file's folder."""
        return self.base


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """A row that stands inline, below a field of the experiment file."""

    origin: Origin
    prefix: FieldPath

    def where(self, path: FieldPath) -> str:
        """Name file, line and field."""
        return self.origin.where((*self.prefix, *path))

    def folder(self, path: FieldPath) -> Path:
        """Give the folder of the file that the row stands in."""
        return self.origin.folder((*self.prefix, *path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What an author wrote for one task, not checked yet."""

    data: Any
    origin: Origin


def inline_rows(rows: list[Any], origin: Origin, path: FieldPath) -> Iterator[Row]:
    """Give the rows that stand in the experiment file itself."""
    for number, data in enumerate(rows):
        yield Row(data=data, origin=Below(origin=origin, prefix=(*path, number)))
