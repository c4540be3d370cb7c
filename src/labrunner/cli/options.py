"""Pieces of command lines that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from labrunner.display.text.saying import say_aside
from labrunner.errors import InputError

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="a path, an id, a unique part of an id, or `last`")
]


def find_runs(log_dir: Path) -> Path:
    """The folder whose runs a command reads; said when it is not the one of this folder."""
    from labrunner.store.reading.listing import nearest_runs  # here, because `init` and its kin need no runs

    found = nearest_runs(log_dir)
    if found != log_dir:
        say_aside(f"runs of {found}")
    return found


LogDir = Annotated[
    Path,
    typer.Option(
        "--log-dir", callback=find_runs, help="where runs are kept; without .lab here, the nearest above"
    ),
]
NewLogDir = Annotated[Path, typer.Option("--log-dir", help="where runs are kept")]
"""For commands that make runs from experiments: they lie beside those."""
Json = Annotated[bool, typer.Option("--json", envvar="LAB_JSON", help="print JSON instead of text")]


def make_app() -> typer.Typer:
    """An app for one command: plain errors, every option also as LAB_<OPTION>."""
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"auto_envvar_prefix": "LAB", "help_option_names": ["-h", "--help"]},
    )


def pairs(words: list[str] | None, option: str) -> tuple[tuple[str, str], ...]:
    """Split K=V words."""
    split = [(word, *word.partition("=")) for word in words or []]
    for word, key, equals, _ in split:
        if not equals or not key:
            raise InputError(option, f"expected NAME=VALUE, found {word!r}")
    return tuple((key, value) for _, key, _, value in split)


def parse_count(text: str | None, option: str) -> int | None:
    """Read a whole number."""
    if text is None:
        return None
    if not text.isdecimal():
        raise InputError(option, f"expected a whole number from 0 on, found {text!r}")
    return int(text)


def parse_threshold(text: str | None) -> bool | float | None:
    """Read a value of `fail_on_error` by the same rules as a file's."""
    if text is None:
        return None
    value = {"true": True, "false": False}.get(text) if text in {"true", "false"} else _number(text)
    if value is None or (value is not True and value is not False and not 0 < value < float("inf")):
        raise InputError(
            "--fail-on-error",
            f"expected true, false, a share (0 < x < 1) or a count (x >= 1), found {text!r}",
        )
    return value


def _number(text: str) -> float | None:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return None
