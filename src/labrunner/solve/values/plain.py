"""Values that task code brings, as plain JSON: numbers of other libraries are taken as the numbers they are.

Rule: what is taken is equal to what was given. What is not JSON is refused with the key where it stands.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from labrunner.records.encoding import canonical


class NotPlain(ValueError):
    """A value that a record can't hold."""

    def __init__(self, at: str, problem: str) -> None:
        """Say where it stands, as keys from the outside in, and what is wrong with it."""
        super().__init__(f"{at}: {problem}" if at else problem)


def as_number(value: object) -> bool | int | float | None:
    """The number that a value is, be it numpy's or anybody's; None for what is none."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal | Fraction):
        return float(value)
    item = getattr(value, "item", None)
    if not callable(item) or isinstance(value, type):
        return None
    try:
        single = item()
    except Exception:  # noqa: BLE001 - somebody else's method: an array of several says so in its own way
        return None
    return as_number(single) if isinstance(single, bool | int | float | Decimal | Fraction) else None


def as_plain(value: object, at: str = "") -> Any:  # noqa: ANN401 - plain JSON
    """A value as plain JSON that is equal to it. Raises NotPlain."""
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)
    number = as_number(value)
    if number is not None:
        if not canonical.has_only_finite_numbers(number):
            raise NotPlain(at, f"{number} is no number in JSON")
        return number
    if isinstance(value, Mapping):
        return {_key(key, at): as_plain(each, _below(at, key)) for key, each in value.items()}
    if callable(listing := getattr(value, "tolist", None)) and not isinstance(value, type):
        return as_plain(listing(), at)
    if isinstance(value, list | tuple):
        return [as_plain(each, _below(at, number)) for number, each in enumerate(value)]
    raise NotPlain(at, f"a {type(value).__name__} is not JSON; write it as text, a number, a list or a map")


def _key(key: object, at: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise NotPlain(_below(at, key), f"a key must be text, found the {type(key).__name__} {key!r}")


def _below(at: str, key: object) -> str:
    return f"{at}.{key}" if at else str(key)
