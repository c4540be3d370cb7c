"""Reading JSON of strangers: whatever stands there, nothing is raised.

Rule: a value of another type than asked for counts as absent; numbers that count something are never
negative.
"""

from typing import Any

JsonMap = dict[str, Any]  # JSON of a stranger


def dig(value: object, *keys: str | int) -> object:
    """The value at a path, or None."""
    for key in keys:
        match value, key:
            case dict(), str():
                value = value.get(key)
            case list(), int() if -len(value) <= key < len(value):
                value = value[key]
            case _:
                return None
    return value


def dig_text(value: object, *keys: str | int) -> str | None:
    """The text at a path."""
    found = dig(value, *keys)
    return found if isinstance(found, str) else None


def dig_count(value: object, *keys: str | int) -> int | None:
    """The whole number at a path, from 0 on; a float that is whole counts."""
    match dig(value, *keys):
        case bool():
            return None
        case int(number) if number >= 0:
            return number
        case float(number) if number >= 0 and number.is_integer():
            return int(number)
        case _:
            return None


def dig_list(value: object, *keys: str | int) -> list[object]:
    """The list at a path; empty where there is none."""
    found = dig(value, *keys)
    return found if isinstance(found, list) else []


def dig_maps(value: object, *keys: str | int) -> list[JsonMap]:
    """The maps of the list at a path."""
    return [each for each in dig_list(value, *keys) if isinstance(each, dict)]


def dig_map(value: object, *keys: str | int) -> JsonMap:
    """The map at a path; empty where there is none."""
    found = dig(value, *keys)
    return found if isinstance(found, dict) else {}


def is_true(value: object, *keys: str | int) -> bool:
    """Whether true stands at a path."""
    return dig(value, *keys) is True
