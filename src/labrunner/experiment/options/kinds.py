"""Kinds of values that authors give as settings, limits and options, and what is said of any other value."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from labrunner.errors import InputError


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be."""

    name: str
    fits: Callable[[Any], bool]
    annotation: str
    """The same for type checkers."""

    def check(self, where: str, value: object) -> None:
        """Refuse a value of another kind; None stands for what was not given."""
        if value is not None and not self.fits(value):
            from labrunner.experiment.authoring.problems import found  # here: it loads pydantic

            raise InputError(where, f"must be {self.name}, found {found(value)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(each, str) for each in value)
    )


NUMBER: Final = Kind("a number", _is_number, "float")
POSITIVE: Final = Kind("a number above 0", lambda value: _is_number(value) and value > 0, "float")
NOT_NEGATIVE: Final = Kind("a number from 0 on", lambda value: _is_number(value) and value >= 0, "float")
SHARE: Final = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1, "float")
WHOLE: Final = Kind("a whole number", _is_whole, "int")
COUNT: Final = Kind("a whole number from 1 on", lambda value: _is_whole(value) and value >= 1, "int")
COUNT_OR_NONE: Final = Kind("a whole number from 0 on", lambda value: _is_whole(value) and value >= 0, "int")
TRUTH: Final = Kind("true or false", lambda value: isinstance(value, bool), "bool")
TEXT: Final = Kind("text", lambda value: isinstance(value, str), "str")
TEXTS: Final = Kind("a list of texts", _are_texts, "Sequence[str]")
TEXT_OR_TEXTS: Final = Kind(
    "text or a list of texts",
    lambda value: isinstance(value, str) or _are_texts(value),
    "str | Sequence[str]",
)
MAP: Final = Kind("a map", lambda value: isinstance(value, Mapping), "Mapping[str, Any]")
MAP_OF_TEXTS: Final = Kind(
    "a map of texts",
    lambda value: isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()),
    "Mapping[str, str]",
)
