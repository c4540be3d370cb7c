"""Scores, and what is made of many: values, metrics, reducers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, ParamSpec, TypeAlias, overload

from labrunner.solve.values.description import bind_arguments, describe
from labrunner.solve.values.plain import as_number

CORRECT: Final = "C"
INCORRECT: Final = "I"
PARTIAL: Final = "P"
NOANSWER: Final = "N"

Value: TypeAlias = str | int | float | bool | Sequence[str | int | float | bool] | Mapping[str, Any]
P = ParamSpec("P")

_LETTERS: Final = {CORRECT: 1.0, PARTIAL: 0.5, INCORRECT: 0.0, NOANSWER: 0.0}
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


@dataclass(slots=True)
class Score:
    """A scorer's word on one attempt."""

    value: Value
    answer: str | None = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None  # any JSON: the scorer's own

    @property
    def text(self) -> str:
        """The value as text."""
        return str(self.value)

    def as_float(self) -> float:
        """The value as a number."""
        return value_to_float(self.value)


def value_to_float(value: Value) -> float:
    """A score's value as a number: letters, words and truths included. Raises ValueError for others."""
    number = as_number(value)
    if number is not None:
        return float(number)
    if isinstance(value, str):
        if value in _LETTERS:
            return _LETTERS[value]
        if value.lower() in _WORDS:
            return _WORDS[value.lower()]
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"a score of {value!r} is no number, and none of C, P, I, N, yes, no") from None
    raise ValueError(f"a score that is a {type(value).__name__} is no number")


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure over the samples' scores."""

    name: str
    call: Callable[[Sequence[float]], float]
    arguments: Mapping[str, Any] = field(default_factory=dict)  # plain JSON, for the record

    def __call__(self, scores: Sequence[float]) -> float:
        """Compute it from one number per sample."""
        return self.call(scores)

    def describe(self) -> object:
        """Name and arguments."""
        return {"name": self.name, "arguments": dict(self.arguments)}


@overload
def metric(name: Callable[P, Any]) -> Callable[P, Metric]: ...
@overload
def metric(name: str | None = None) -> Callable[[Callable[P, Any]], Callable[P, Metric]]: ...
def metric(name: Any = None) -> Any:
    """Make a function that returns a figure's function into a metric: `@metric` or `@metric("name")`.

    The inner function gets one number per sample: its score, reduced over epochs.
    """

    def decorate(make: Callable[P, Any]) -> Callable[P, Metric]:
        called = name if isinstance(name, str) else make.__name__

        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Metric:
            return Metric(called, make(*args, **kwargs), describe(bind_arguments(make, args, kwargs)))

        return made

    return decorate(name) if callable(name) else decorate
