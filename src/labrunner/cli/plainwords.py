"""Commands that take plain words as they are, without loading what would check them.

Typer checks every value with pydantic, whose import takes longer than many a command: 0.07 s of processor
time, and a small `lab query` would take 1.18 times as much (`bench shortcuts`). A word that is text where
text is expected, one of the choices, or a default needs no check.

Rule: whatever is not as plain as that is left to Typer, messages included.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from typer.core import TyperCommand

_DOOR: Final = "get_runtime_param"
"""Where a parameter of Typer gets what checks its values."""


class PlainCommand(TyperCommand):
    """A command of plain words; for `app.command(cls=...)`."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's own types are private
        """The parameters, that for help included, each with a plain way before its own."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            # Where Typer has no such method it does not load pydantic either.
            build = getattr(param, _DOOR, None)
            if build is not None and _DOOR not in vars(param):
                plain = _Coercion(kind=param.type_descriptor.annotation, build=build)
                setattr(param, _DOOR, plain.itself)
        return params


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coercion:
    """Stands in the place of Typer's."""

    kind: object
    build: Callable[[], Any]

    def itself(self) -> "_Coercion":
        """What the parameter asks for."""
        return self

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - as Typer calls it
        """The value as the command takes it."""
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        if is_many and isinstance(value, list | tuple) and self.kind == list[str]:
            return list(value) if all(map(_is_text, value)) else self._leave(value, param, ctx)
        if not is_many and is_plain(value, self.kind, param.default):
            return value
        return self._leave(value, param, ctx)

    def _leave(self, value: object, param: object, ctx: object) -> Any:  # noqa: ANN401 - as Typer gives it
        return self.build().coerce(value, param=param, ctx=ctx)


def is_plain(value: object, kind: object, default: object) -> bool:
    """Whether a value needs no check to be of its kind."""
    if kind is str:
        return _is_text(value)
    if kind is Path:
        return isinstance(value, Path) and value == default and _is_within_reach(value)
    return get_origin(kind) is Literal and value in get_args(kind)


def _is_text(value: object) -> bool:
    # Beyond ASCII there may be bytes that are no characters.
    return isinstance(value, str) and value.isascii()


def _is_within_reach(path: Path) -> bool:
    return os.access(path, os.R_OK) or not path.exists()
