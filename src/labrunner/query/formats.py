"""Writing an answer down: CSV, JSON, or Parquet."""

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TextIO

import msgspec

from labrunner.query.database import SqlAnswer

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet carry a cell out instead of showing it."""
_encoder: Final = msgspec.json.Encoder(enc_hook=str, decimal_format="number")


class Rows(Protocol):
    """Rows with names for their columns."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        ...

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows, in order."""
        ...


def write_csv(answer: Rows, stream: TextIO, *, clean: Callable[[str], str] = str) -> None:
    """Write rows as CSV; nothing for NULL. `clean` is applied to text, where a terminal will show it.

    Text that a spreadsheet would take for a formula gets a `'` before it; numbers stay as they are.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([clean(name) for name in answer.columns])
    for row in answer.rows():
        writer.writerow(["" if value is None else _disarm(value, clean(to_text(value))) for value in row])


def _disarm(value: object, text: str) -> str:
    is_formula = isinstance(value, str) and text.startswith(FORMULA) and not _is_number(text)
    return f"'{text}" if is_formula else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_json(answer: SqlAnswer, stream: TextIO) -> None:
    """Write rows as one JSON list of objects, a row a line."""
    columns, types = answer.columns, answer.types
    separator = "[\n"
    for row in answer.rows():
        told = {name: to_json(value, kind) for name, value, kind in zip(columns, row, types, strict=True)}
        stream.write(separator + _encoder.encode(told).decode())
        separator = ",\n"
    stream.write("[]\n" if separator == "[\n" else "\n]\n")


def to_json(value: object, kind: str) -> object:
    """A value as JSON has it: columns of JSON come as text, and are not quoted again."""
    return msgspec.Raw(value.encode()) if kind == "JSON" and isinstance(value, str) else value


def to_text(value: object) -> str:
    """A value as one cell of text."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case list() | dict() | tuple():
            return _encoder.encode(value).decode()
        case _:
            return str(value)


def to_cells(row: Sequence[object]) -> tuple[str, ...]:
    """A row for a table that people read."""
    return tuple("" if value is None else _short(value) for value in row)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else to_text(value)
