"""Where tasks can come from: by the suffix of a file, or by a name before a colon, `name:whatever`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias, TypeGuard

from labrunner.errors import InputError
from labrunner.experiment.sources.named import split_name
from labrunner.experiment.sources.renaming import rename
from labrunner.experiment.sources.task_rows import Row, SourceRequest
from labrunner.registry import Registry

Source: TypeAlias = Callable[[SourceRequest], Iterator[Row]]


def _is_source(found: object) -> TypeGuard[Source]:
    return callable(found)


SOURCES: Final = Registry(
    group="labrunner.task_sources",
    noun="task source",
    built_in={
        ".jsonl": "labrunner.experiment.sources.task_files:read_jsonl",
        ".ndjson": "labrunner.experiment.sources.task_files:read_jsonl",
        ".json": "labrunner.experiment.sources.task_files:read_json",
        ".csv": "labrunner.experiment.sources.task_files:read_csv",
        ".parquet": "labrunner.interop.importers.parquet_rows:read_parquet",
    },
    accepts=_is_source,
    wanted="a function from a SourceRequest to rows",
)


def read_rows(request: SourceRequest) -> Iterator[Row]:
    """Read the tasks of a source; what is wrong with them is noted, and left out."""
    name, text = _find_name(request)
    problems = request.problems
    try:
        source = SOURCES.find(name, request.where)
    except InputError as error:
        problems.add(request.where, f"'{request.text}' can't be read: {error.problem}")
        return iter(())
    asked = replace(request, text=text)
    rows = source(asked) if name in SOURCES.built_in else _guard(name, source, asked)
    return rename(rows, request) if request.names else rows


def _find_name(request: SourceRequest) -> tuple[str, str]:
    """The source's name, and what it is asked for. A file that is there is meant, whatever it is called."""
    named = split_name(request.text)
    if named is not None and not request.path.exists():
        return named
    return request.path.suffix.lower(), request.text


def _guard(name: str, source: Source, request: SourceRequest) -> Iterator[Row]:
    """Name another package's source in whatever goes wrong in it."""
    try:
        for row in source(request):
            if not isinstance(row, Row):
                told = f"must give a Row each time, found a {type(row).__name__}"
                raise InputError(request.where, f"the task source {name!r} {told}")  # noqa: TRY301 - told below
            yield row
    except InputError as error:
        request.problems.take(error)
    except Exception as error:  # noqa: BLE001 - another package's code may raise anything
        told = f"the task source {name!r} failed: {type(error).__name__}: {error}"
        request.problems.add(request.where, told)
