"""Pieces of command lines that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from labrunner.display.text.saying import say_aside
from labrunner.experiment.options.table import find_option

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="a path, an id, a unique part of an id, or `last`")
]


def take_option(name: str, **changes: Any) -> Any:  # noqa: ANN401 - typer's own marker, and what it takes
    """An option of the table as typer takes it; `changes` are this command's own."""
    option = find_option(name)
    known = {"envvar": option.variable, "help": option.help, "metavar": option.metavar, "min": option.least}
    return typer.Option(*option.flags, **{**known, **changes})


def find_runs(log_dir: Path) -> Path:
    """The folder whose runs a command reads; said when it is not the one of this folder."""
    from labrunner.store.reading.listing import nearest_runs  # here, because `init` and its kin need no runs

    found = nearest_runs(log_dir)
    if found != log_dir:
        say_aside(f"runs of {found}")
    return found


OLD_RUNS = {"callback": find_runs, "help": "where runs are kept; without .lab here, the nearest above"}
"""For commands that look for runs: those that make runs from experiments put them beside those."""
LogDir = Annotated[Path, take_option("log_dir", **OLD_RUNS)]
Json = Annotated[bool, take_option("json")]


def make_app() -> typer.Typer:
    """An app for one command: plain errors, every option also as LAB_<OPTION>."""
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"auto_envvar_prefix": "LAB", "help_option_names": ["-h", "--help"]},
    )
