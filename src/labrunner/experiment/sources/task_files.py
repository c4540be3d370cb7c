"""Task rows from JSONL, JSON and CSV files, each with the line that it stands on.

CSV: the first line names the fields. Cells are text, whatever they look like, unless the column's name
ends in `:json`. A column `input.question` sets the field `question` of `input` (likewise `metadata.…`,
`env.…`, `files.…`); tags are separated by `,` or `;`; an empty cell leaves its field out.
"""

import csv
import io
import json
import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import Origin
from labrunner.experiment.authoring.plain_file import read_authored
from labrunner.experiment.authoring.problems import Problems, found
from labrunner.experiment.sources.task_rows import Row, RowOrigin, SourceRequest

CLOSE: Final = 0.6
"""How much of a name must agree for it to be meant, of 1."""
_LONGEST_CELL: Final = 1 << 30
"""Python's own limit, 128 KiB, is less than a long prompt."""


def read_jsonl(request: SourceRequest) -> Iterator[Row]:
    """One task a line."""
    text = _read_text(request)
    return iter(()) if text is None else _jsonl_rows(request.path, text, request.problems)


def read_json(request: SourceRequest) -> Iterator[Row]:
    """A list of tasks."""
    text = _read_text(request)
    return iter(()) if text is None else _json_rows(request.path, text, request.problems)


def read_csv(request: SourceRequest) -> Iterator[Row]:
    """A table, one task a row."""
    text = _read_text(request)
    return iter(()) if text is None else _csv_rows(request, text)


def _read_text(request: SourceRequest) -> str | None:
    path = request.path
    try:
        return read_authored(path).decode("utf-8-sig")  # line ends inside cells stay as they are
    except UnicodeDecodeError as error:
        told = f"'{path}' is not UTF-8 text (byte {error.start}); save it as UTF-8"
    except FileNotFoundError as error:
        told = f"the task file '{path}' can't be read: {error.strerror}{_guess(path)}"
    except OSError as error:
        told = f"the task file '{path}' can't be read: {error.strerror}"
    request.problems.add(request.where, told)
    return None


def _guess(path: Path) -> str:
    """Files beside one that is not there which may be meant."""
    beside = path.parent.glob(f"*{path.suffix}") if path.parent.is_dir() else ()
    near = get_close_matches(path.stem, sorted(each.stem for each in beside), 3, CLOSE)
    return f"; did you mean {' or '.join(f'{stem}{path.suffix}' for stem in near)}?" if near else ""


def _jsonl_rows(path: Path, text: str, problems: Problems) -> Iterator[Row]:
    # Only \n ends a line: JSON text may hold other line separators as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        origin = RowOrigin(file=str(path), mark=f":{number}", base=path.parent)
        if line.strip():
            try:
                yield Row(data=_decode(line), origin=origin)
            except ValueError as error:
                problems.add(origin.where(()), f"is not valid JSON: {error}")


def _json_rows(path: Path, text: str, problems: Problems) -> Iterator[Row]:
    try:
        data = _decode(text)
    except ValueError as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        problems.add(f"{path}{line}", f"is not valid JSON: {error}")
        return
    rows = data.get("tasks") if isinstance(data, dict) and set(data) == {"tasks"} else data
    if not isinstance(rows, list):
        problems.add(str(path), f'must be a list of tasks, or {{"tasks": […]}}, found {found(data)}')
        return
    for number, row in enumerate(rows):
        yield Row(data=row, origin=RowOrigin(file=str(path), mark=f": task {number}", base=path.parent))


def _csv_rows(request: SourceRequest, text: str) -> Iterator[Row]:
    path, problems = request.path, request.problems
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    header: list[str] | None = None
    try:
        for cells in reader:
            origin = RowOrigin(file=str(path), mark=f":{line}", base=path.parent)
            line = reader.line_num + 1
            if not any(cells):
                continue
            if header is None:
                names = [cell.strip() for cell in cells]
                header = names if request.names else _check_header(names, origin, request.known)
                continue
            yield Row(data=_csv_row(header, cells, origin, is_plain=bool(request.names)), origin=origin)
    except csv.Error as error:
        problems.add(f"{path}:{line}", f"is not valid CSV: {error}")
    except InputError as error:
        problems.take(error)


def _check_header(header: list[str], origin: Origin, known: Collection[str]) -> list[str]:
    names = [name.removesuffix(":json") for name in header]
    if "id" not in names:
        raise InputError(origin.where(()), "the first line must name the columns, and one of them must be id")
    twice = [name for name in names if names.count(name) > 1]
    if twice or "" in names:
        raise InputError(
            origin.where(()), f"the column '{twice[0] if twice else ''}' must have a name of its own"
        )
    unknown = [name for name in names if name.partition(".")[0] not in known]
    if unknown:
        told = (
            f"no field of a task is called like the {_describe_columns(unknown)}; rename to input or target, "
        )
        told += f"to input.{unknown[0]}, or to metadata.{unknown[0]} (which agents don't see)"
        raise InputError(origin.where(()), f"{told}; known fields: {', '.join(known)}")
    return header


def _describe_columns(names: list[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"column {quoted}" if len(names) == 1 else f"columns {quoted}"


def _csv_row(header: list[str], cells: list[str], origin: Origin, *, is_plain: bool) -> dict[str, Any]:
    if len(cells) != len(header):
        raise InputError(
            origin.where(()), f"has {len(cells)} cells, but the first line names {len(header)} columns"
        )
    row: dict[str, Any] = {}
    if is_plain:
        return {column: cell or None for column, cell in zip(header, cells, strict=True)}
    for column, cell in zip(header, cells, strict=True):
        if cell:
            _set_cell(row, column, cell, origin)
    return row


def _set_cell(row: dict[str, Any], column: str, cell: str, origin: Origin) -> None:
    name = column.removesuffix(":json")
    field, _, inner = name.partition(".")
    value: Any = cell
    if column != name:
        try:
            value = _decode(cell)
        except ValueError as error:
            raise InputError(origin.where((column,)), f"is not valid JSON: {error}") from error
    elif field == "tags":
        value = [tag.strip() for tag in re.split("[;,]", cell) if tag.strip()]
    if not inner:
        row[field] = value
        return
    below = row.setdefault(field, {})
    if not isinstance(below, dict):
        raise InputError(origin.where((column,)), f"there is a column '{field}' too; keep one of them")
    below[inner] = value


def _decode(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"'{twice}' stands twice in the same map")
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


# Made once: making one takes longer than decoding a row.
_decoder: Final = json.JSONDecoder(object_pairs_hook=_without_doubles, parse_constant=_refuse_constant)
