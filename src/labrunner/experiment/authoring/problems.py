"""Collects everything that is wrong with what an author wrote, so that it can be mended in one go.

A message says what was found and what would be right. Pydantic's own words never reach a person.
"""

import difflib
import re
from collections.abc import Callable, Iterable
from datetime import date, time
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.authoring.document import FieldPath

_SHOWN: Final = 50
_M = TypeVar("_M", bound=BaseModel)


class Problems:
    """The problems found so far; the same one is kept once."""

    def __init__(self) -> None:
        """Start with none."""
        self._found: dict[tuple[str, str], None] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._found)

    def add(self, where: str, problem: str) -> None:
        """Note a problem."""
        self._found[where, problem] = None

    def take(self, error: InputError) -> None:
        """Note a problem that was raised."""
        self.add(error.where, error.problem)

    def stop_if_any(self) -> None:
        """Raise what was found."""
        errors = [InputError(where, problem) for where, problem in _fold(sorted(self._found, key=_by_line))]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            more = len(errors) - _SHOWN
            rest = [InputError("", f"… and {more} more problems")] if more > 0 else []
            raise InputErrors(errors[:_SHOWN] + rest)


def validate(
    model: type[_M], data: object, where: Callable[[FieldPath], str], problems: Problems
) -> _M | None:
    """Decode what an author wrote; None when something is wrong with it."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            # A map's wrong key comes with a mark of pydantic's own behind it.
            path = tuple(part for part in detail["loc"] if part != "[key]" and not _is_tag(part))
            problems.add(where(path), _sentence(model, path, detail))
        return None
    except RecursionError:
        problems.add(where(()), "is nested too deeply to be read")
        return None


def found(value: object) -> str:
    """Describe a value in a message."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"text '{shorten(value)}'"
        case list() | tuple():
            return "a list"
        case dict():
            return "a map"
        case date():
            return "a date"
        case time():
            return "a time of day"
        case bytes():
            return "bytes"
        case _:
            return f"a {type(value).__name__}"


def shorten(text: str, longest: int = 60) -> str:
    """Keep a message on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def listed(names: Iterable[str], most: int = 12) -> str:
    """List names in a message."""
    every = list(names)
    rest = f", … ({len(every)} in all)" if len(every) > most else ""
    return ", ".join(every[:most]) + rest


def nearest(name: str, known: Iterable[str]) -> str:
    """List the known names that look most like `name`."""
    return listed(difflib.get_close_matches(name, list(known)[:5000], 3, 0.0))


def _by_line(problem: tuple[str, str]) -> tuple[str, int]:
    """Sort problems as an author meets them in each file; those of one line stay as they were found."""
    match = re.match(r"(.*?):(\d+)(?::|$)", problem[0])
    return ("", 0) if match is None else (match[1], int(match[2]))


def _fold(problems: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Say once, and of how many rows, what is wrong with the same field of several rows of a task file."""
    places: dict[tuple[str, ...], list[str]] = {}
    for where, problem in problems:
        match = _ROW.fullmatch(where)
        key = (where, problem) if match is None else (match["file"], match["rest"], problem)
        places.setdefault(key, []).append(where)
    return [(wheres[0], f"{key[-1]}{_and_others(wheres)}") for key, wheres in places.items()]


def _and_others(wheres: list[str]) -> str:
    more = len(wheres) - 1
    return f" (and so in {more:,} more row{'s' if more > 1 else ''})" if more else ""


_ROW: Final = re.compile(
    r"(?P<file>.+?\.(?:jsonl|ndjson|json|csv|parquet))(?::\d+|: row \d+|: task \d+)(?P<rest>: .*|)"
)
"""Where a field of a row of a task file stands."""


def _is_tag(part: str | int) -> bool:
    return isinstance(part, str) and part.startswith("<") and part.endswith(">")


def _sentence(model: type[BaseModel], path: FieldPath, detail: ErrorDetails) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_field(model, path)
    if kind == "missing":
        return f"is missing{_MISSING.get(str(path[-1]), '')}"
    if kind == "value_error":
        return str(context["error"])
    template = _SENTENCES.get(kind)
    if template is None:
        return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, found {found(value)}"
    bounds = {name: f"{each:g}" if isinstance(each, float) else each for name, each in context.items()}
    return f"{template.format(**bounds)}, found {found(value)}{_hint(kind, value)}"


_MISSING: Final = {
    "name": "; a short name for the experiment, such as sort-demo",
    "tasks": "; a task file such as tasks.jsonl, or a list of tasks",
    "file": "; a task file such as tasks.jsonl",
    "id": "; text that no other one here has",
}
_SENTENCES: Final = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "list_type": "must be a list",
    "dict_type": "must be a map",
    "model_type": "must be a map of fields",
    "literal_error": "must be {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}


def _hint(kind: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "; quote it"
    return ""


def _unknown_field(model: type[BaseModel], path: FieldPath) -> str:
    names = _field_names(model, path[:-1])
    close = difflib.get_close_matches(str(path[-1]), names, 1)
    hint = f"did you mean '{close[0]}'?" if close else f"known fields: {', '.join(names)}"
    return f"there is no such field; {hint}"


def _field_names(model: type[BaseModel], path: FieldPath) -> list[str]:
    for part in path:
        field = model.model_fields.get(str(part))
        inner = None if field is None else _model_in(field.annotation)
        model = inner or model
    return field_names(model)


def field_names(model: type[BaseModel]) -> list[str]:
    """The names of a part's fields, as authors write them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - annotations have no common type
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
