"""How values of options are written: words of the command line and values in Python, made into one form."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labrunner.errors import InputError


def as_given(value: Any, where: str) -> Any:  # noqa: ANN401 - any option's value
    """The value as it is."""
    del where
    return value


def as_pairs(words: Sequence[str], where: str) -> tuple[tuple[str, str], ...]:
    """Split K=V words."""
    split = [(word, *word.partition("=")) for word in words]
    for word, key, equals, _ in split:
        if not equals or not key:
            raise InputError(where, f"expected NAME=VALUE, found {word!r}")
    return tuple((key, value) for _, key, _, value in split)


def as_texts_by_name(words: Sequence[str], where: str) -> dict[str, str]:
    """K=V words as a map."""
    return dict(as_pairs(words, where))


def as_values_by_name(words: Sequence[str], where: str) -> dict[str, Any]:
    """K=V words as a map, each value read the way it would be read in a file."""
    from labrunner.experiment.authoring.document import parse_value  # here: it loads yaml

    return {name: parse_value(text, f"{where} {name}={text}") for name, text in as_pairs(words, where)}


def as_count(text: str, where: str) -> int:
    """Read a whole number."""
    if not text.isdecimal():
        raise InputError(where, f"expected a whole number from 0 on, found {text!r}")
    return int(text)


def as_one(words: Sequence[str], where: str) -> str:
    """The first of several words."""
    del where
    return words[0]


def as_texts(given: Any, where: str) -> tuple[str, ...]:  # noqa: ANN401 - one of something, or many
    """One text, or many, as many; numbers are names, too."""
    del where
    return tuple(str(each) for each in listed(given))


def as_agents(given: Any, where: str) -> tuple[str, ...]:  # noqa: ANN401 - one of something, or many
    """Agents by name, or files of agents, wherever they are read from later."""
    names = as_texts(given, where)
    is_file = [name.startswith((".", "/")) or name.endswith((".yaml", ".yml")) for name in names]
    return tuple(
        str(Path(name).resolve()) if is_path else name for name, is_path in zip(names, is_file, strict=True)
    )


def as_map(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A map of our own."""
    del where
    return dict(given)


def as_fields(given: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """Fields of a file and values, as words."""
    del where
    return tuple((name, json.dumps(value)) for name, value in given.items())


def as_fields_of_budget(given: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """The same for fields of the budget."""
    return as_fields({f"budget.{name}": value for name, value in given.items()}, where)


def is_failed(given: object, where: str) -> bool:
    """Whether `failed` was chosen, and not `never`."""
    if given not in {"failed", "never"}:
        raise InputError(where, f"expected 'failed' or 'never', found {given!r}")
    return given == "failed"


def as_replay_mode(given: object, where: str) -> object:
    """How recorded calls answer."""
    if given not in {"strict", "reuse"}:
        raise InputError(where, f"expected 'strict' or 'reuse', found {given!r}")
    return given


def as_text(given: object, where: str) -> str:
    """A path, or a name, as text."""
    del where
    return str(given)


def listed(given: Any) -> list[Any]:  # noqa: ANN401 - one of something, or many
    """One of something, or many, as a list."""
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def as_path(given: str | Path, where: str) -> Path:
    """A path."""
    del where
    return Path(given)
