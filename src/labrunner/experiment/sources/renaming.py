"""Rows of files that have names of their own, as task rows: only what is named is taken.

A name such as `input.question` sets the field `question` of `input`. What is empty in the file leaves its
field out. Ids that are whole numbers become text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labrunner.experiment.authoring.problems import found, listed
from labrunner.experiment.sources.task_rows import Row, SourceRequest


def rename(rows: Iterator[Row], request: SourceRequest) -> Iterator[Row]:
    """Give rows with the names of tasks' fields; what is wrong is noted."""
    names = {name: column for name, column in request.names.items() if _is_known(name, request)}
    if "id" not in request.names:
        request.problems.add(f"{request.where}: fields", "must say what the file calls id")
    lacks = {column: _Lack() for column in names.values()}
    total = 0
    for row in rows:
        if not isinstance(row.data, dict):
            told = f"must be a map, found {found(row.data)}"
            request.problems.add(row.origin.where(()), told)
            continue
        total += 1
        missing = [column for column in names.values() if column not in row.data]
        for column in missing:
            lacks[column].note(row)
        if not missing:
            yield Row(data=_renamed(row.data, names), origin=row.origin)
    for column, lack in lacks.items():
        lack.tell(column, total, request)


@dataclass(slots=True)
class _Lack:
    """Rows without a column: all of them are one problem."""

    rows: int = 0
    first: Row | None = None

    def note(self, row: Row) -> None:
        self.rows += 1
        self.first = self.first or row

    def tell(self, column: str, total: int, request: SourceRequest) -> None:
        if self.first is None:
            return
        which = f" in any of {total:,} rows" if self.rows == total > 1 else ""
        which = which or (f" in {self.rows:,} of {total:,} rows, here first" if total > 1 else "")
        told = f"there is no such column{which}; there are: {listed(map(str, self.first.data))}"
        request.problems.add(self.first.origin.where((column,)), told)


def _is_known(name: str, request: SourceRequest) -> bool:
    first, dot, _ = name.partition(".")
    if dot and first in request.names:
        told = f"'{name}' stands beside '{first}', which sets all of it; keep one of them"
        request.problems.add(f"{request.where}: fields", told)
        return False
    if first in request.known:
        return True
    told = f"no field of a task is called '{name}'; known fields: {', '.join(request.known)}"
    request.problems.add(f"{request.where}: fields", told)
    return False


def _renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, column in names.items():
        value, (first, _, inner) = data[column], name.partition(".")
        if value is None:
            continue
        if name == "id" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not inner:
            row[first] = value
        else:
            row.setdefault(first, {})[inner] = value
    return row
