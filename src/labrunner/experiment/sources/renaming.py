"""Rows of files that have names of their own, as task rows: only what is named is taken.

A name such as `input.question` sets the field `question` of `input`. What is empty in the file leaves its
field out. Ids that are whole numbers become text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from labrunner.experiment.authoring.problems import found, listed
from labrunner.experiment.sources.task_rows import Row, SourceRequest


def rename(rows: Iterator[Row], request: SourceRequest) -> Iterator[Row]:
    """Give rows with the names of tasks' fields; what is wrong is noted."""
    names = {name: column for name, column in request.names.items() if _is_known(name, request)}
    if "id" not in request.names:
        request.problems.add(f"{request.where}: fields", "must say what the file calls id")
    for row in rows:
        if not isinstance(row.data, dict):
            told = f"must be a map, found {found(row.data)}"
            request.problems.add(row.origin.where(()), told)
            continue
        missing = [column for column in names.values() if column not in row.data]
        for column in missing:
            told = f"there is no such column; there are: {listed(map(str, row.data))}"
            request.problems.add(row.origin.where((column,)), told)
        if not missing:
            yield Row(data=_renamed(row.data, names), origin=row.origin)


def _is_known(name: str, request: SourceRequest) -> bool:
    if name.partition(".")[0] in request.known:
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
        elif isinstance(below := row.setdefault(first, {}), dict):
            below[inner] = value
    return row
