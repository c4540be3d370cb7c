"""Rows of Parquet files, read through DuckDB: plain values only.

What is no JSON (bytes, such as images, times, exact decimals) is refused by file and column, not turned into
something else. Only columns that are asked for are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.problems import listed
from labrunner.experiment.sources.task_rows import Row, RowOrigin, SourceRequest

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

_CONFIG: Final = {"autoload_known_extensions": "false", "autoinstall_known_extensions": "false"}
_WHOLE: Final = ("tinyint", "smallint", "integer", "bigint", "hugeint")
_PLAIN: Final = frozenset(
    {"varchar", "boolean", "double", "float", "sqlnull", *_WHOLE, *(f"u{each}" for each in _WHOLE)}
)
_NESTED: Final = frozenset({"struct", "list", "array"})


def read_parquet(request: SourceRequest) -> Iterator[Row]:
    """One task a row; columns are fields, or what `fields` calls them. Raises InputError."""
    path = request.path
    if not path.is_file():
        request.problems.add(request.where, f"the task file '{path}' can't be read: there is no such file")
        return
    try:
        for row in read_table(path, list(dict.fromkeys(request.names.values()))):
            yield row if request.names else Row(data=_written(row.data), origin=row.origin)
    except InputError as error:
        request.problems.take(error)


def _written(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says: a table has a cell for everything, and what is empty was not written."""
    return {name: value for name, value in data.items() if value is not None}


def read_table(path: Path, columns: Sequence[str] = ()) -> Iterator[Row]:
    """Rows of a file with these columns; none: all of them. Raises InputError."""
    import duckdb  # here, because few experiments need it and every command would wait for it

    try:
        with duckdb.connect(":memory:", config={**_CONFIG}) as connection:
            source = connection.read_parquet(str(path))
            known = dict(zip(source.columns, source.types, strict=True))
            taken = list(columns) or list(known)
            for column in taken:
                _check(path, column, known)
            rows = source.select(
                *(f'"{column.replace(chr(34), chr(34) * 2)}"' for column in taken)
            ).fetchall()
    except duckdb.Error as error:
        raise InputError(str(path), f"can't be read as Parquet: {str(error).splitlines()[0]}") from error
    for number, values in enumerate(rows, start=1):
        origin = RowOrigin(file=str(path), mark=f": row {number}", base=path.parent)
        yield Row(data=dict(zip(taken, values, strict=True)), origin=origin)


def _check(path: Path, column: str, known: "Mapping[str, DuckDBPyType]") -> None:
    if column not in known:
        told = f"there is no such column; there are: {listed(known)}"
        raise InputError(f"{path}: {column}", told)
    odd = next((leaf for leaf in _leaves(known[column]) if leaf not in _PLAIN), None)
    if odd is not None:
        told = f"holds values of the type {odd}, which no task can (such as images): leave the column out"
        raise InputError(f"{path}: {column}", told)


def _leaves(kind: "DuckDBPyType") -> Iterator[str]:
    """The plain types that a type is made of."""
    if kind.id in _NESTED:
        for _, inner in kind.children:
            if isinstance(inner, type(kind)):  # others are an array's length, or an enum's words
                yield from _leaves(inner)
    else:
        yield kind.id
