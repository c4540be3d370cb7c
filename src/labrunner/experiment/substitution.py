"""`$name` in commands, env values, folders and image names, in two stages.

First stage, when an experiment is resolved: bindings of a variant become text. Built-in names are only known
once a sandbox says where things lie, so they stay, as `${name}`; a literal dollar stays `$$`, also one that
came in with a binding's value. Second stage, `expand`: what is left becomes text.
Rule: after the first stage a text holds no dollar but in `${built-in}` and `$$`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

BUILT_INS: Final = ("agent_dir", "grader_dir", "workspace", "task_path", "prompt_path", "python")
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_DOLLAR: Final = re.compile(
    rf"\$(?:(?P<dollar>\$)|(?P<bare>{_NAME})|\{{(?P<braced>{_NAME})\}}|(?P<wrong>.?))", re.DOTALL
)
_BINDING_NAME: Final = re.compile(rf"{_NAME}\Z")


class UnknownName(ValueError):
    """A text asks for a name that nobody gave a value."""


class UnfitBinding(ValueError):
    """A text asks for a binding that has no single obvious text."""


def is_name(text: str) -> bool:
    """Whether `$text` can be written."""
    return _BINDING_NAME.match(text) is not None


def escape(text: str) -> str:
    """Write a literal text so that substitution gives it back."""
    return text.replace("$", "$$")


def scalar_text(value: object) -> str | None:
    """A binding's value as text in a command; None when it has no single obvious text."""
    match value:
        case str():
            return value
        case bool() | int() | float():
            return json.dumps(value)
        case _:
            return None


def split(text: str) -> Iterator[tuple[str, str | None]]:
    """Give a text's pieces, each with the name that follows it; the last one has none. Raises UnknownName."""
    plain, end = "", 0
    for match in _DOLLAR.finditer(text):
        plain += text[end : match.start()]
        end = match.end()
        if match["dollar"]:
            plain += "$"
            continue
        name = match["bare"] or match["braced"]
        if not name:
            raise UnknownName(f"'${match['wrong']}' is no name to put in")
        yield plain, name
        plain = ""
    yield plain + text[end:], None


def names_in(text: str) -> frozenset[str]:
    """The names that a text asks for."""
    found = (match["bare"] or match["braced"] for match in _DOLLAR.finditer(text))
    return frozenset(name for name in found if name)


def bind(text: str, bindings: Mapping[str, object], built_ins: Iterable[str] = BUILT_INS) -> str:
    """First stage: put bindings in; `built_ins` are those allowed here, and stay as `${name}`."""
    allowed = frozenset(built_ins)

    def replace(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$$"
        name = match["bare"] or match["braced"]
        if not name:
            raise UnknownName(f"'${match['wrong']}' is no name to put in")
        return f"${{{name}}}" if name in allowed else _bound(name, bindings)

    return _DOLLAR.sub(replace, text)


def expand(text: str, names: Mapping[str, str]) -> str:
    """Second stage: put the built-in names' values in, and make `$$` a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        name = match["bare"] or match["braced"] or match["wrong"]
        if name not in names:
            known = ", ".join(f"${each}" for each in sorted(names)) or "none"
            raise UnknownName(f"unknown name '${name}'; known here: {known}; write $$ for a dollar sign")
        return names[name]

    return _DOLLAR.sub(replace, text)


def expand_all(texts: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Second stage, for each text of a command."""
    return tuple(expand(text, names) for text in texts)


def _bound(name: str, bindings: Mapping[str, object]) -> str:
    if name not in bindings:
        raise UnknownName(f"unknown name '${name}'")
    text = scalar_text(bindings[name])
    if text is None:
        kind = "null" if bindings[name] is None else "a list or map"
        raise UnfitBinding(
            f"binding '{name}' is {kind}, and only text, numbers, true and false can be put in"
        )
    return escape(text)
