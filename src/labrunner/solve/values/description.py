"""What solvers, tools and scorers are called and were made with, as plain JSON: a run records it.

Also what the experiment's digest covers of a Python task besides its file, so it must be the same in every
process: no addresses, no order of sets.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from labrunner.records.encoding import canonical
from labrunner.solve.values.plain import as_number


@runtime_checkable
class Described(Protocol):
    """Something that can say what it is."""

    def describe(self) -> object:
        """Name and arguments, as plain JSON."""
        ...


def bind_arguments(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, Any]:
    """What a function was called with, by name, defaults included."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def describe(value: object) -> Any:  # noqa: ANN401 - plain JSON
    """Turn any argument into plain JSON that says what it is."""
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Described):
        return value.describe()
    number = as_number(value)
    if number is not None:
        return number if canonical.has_only_finite_numbers(number) else str(number)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): describe(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((describe(each) for each in value), key=canonical.encode)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [describe(each) for each in value]
    if callable(listing := getattr(value, "tolist", None)) and not isinstance(value, type):
        return describe(listing())
    return _name(value)


def is_plain(value: object) -> bool:
    """Whether a value is JSON as it is, so that it can be recorded and given again."""
    if value is None:
        return True
    if isinstance(value, str | bool | int | float):
        # Other libraries' own kinds of numbers and texts can't be written as they are.
        is_own = type(value) in {str, bool, int, float} or isinstance(value, Enum)
        return is_own and canonical.has_only_finite_numbers(value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(each) for key, each in value.items())
    return isinstance(value, list | tuple) and all(is_plain(each) for each in value)


def _name(value: object) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"<{getattr(named, '__qualname__', type(value).__name__)}>"
