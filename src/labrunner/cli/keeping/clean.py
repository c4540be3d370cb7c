"""`lab clean`: says what old runs left behind, then removes it."""

import re
import sys
import time
from typing import Annotated, Final

import typer

from labrunner.cli.pieces import Json, LogDir, make_app
from labrunner.display.text.quantities import format_count, format_size
from labrunner.display.text.saying import say, say_aside
from labrunner.errors import InputError
from labrunner.records.encoding import canonical
from labrunner.runner.upkeep.cleaning import (
    Leftover,
    Sweep,
    abandon,
    count_uncommitted,
    find_left_containers,
    find_left_folders,
    find_leftovers,
    remove_leftover,
)
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import DEFAULT_RUNS, address, find_run

app = make_app()

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ListOnly = Annotated[bool, typer.Option("--list", envvar="LAB_LIST", help="only say what would be removed")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="remove without asking")]
_OlderThan = Annotated[str, typer.Option(help="only of runs that ended this long ago: 12h, 7d")]
_Workspaces = Annotated[bool, typer.Option("--workspaces", help="kept workspaces of ended runs, too")]


_Abandon = Annotated[
    str | None,
    typer.Option(
        "--abandon",
        envvar="LAB_ABANDON",
        metavar="RUN",
        help="give up a run's finished but uncommitted results",
    ),
]


@app.command(
    help="Say what ended runs left behind (containers, networks, old buffers, kept workspaces), "
    "then remove it."
)
def clean(  # noqa: PLR0913 - the signature is the command line
    log_dir: LogDir = DEFAULT_RUNS,
    list_only: _ListOnly = False,
    yes: _Yes = False,
    older_than: _OlderThan = "0s",
    workspaces: _Workspaces = False,
    abandon_run: _Abandon = None,
    as_json: Json = False,
) -> None:
    """Find, tell, ask, remove."""
    if abandon_run is not None:
        _abandon(find_run(log_dir, abandon_run), yes=yes, list_only=list_only)
        return
    sweep = Sweep(now=time.time(), older_than_s=_seconds(older_than), workspaces=workspaces)
    strays = find_left_containers(log_dir, sweep)
    others = (*find_left_folders(log_dir), *find_leftovers(log_dir, sweep))
    found = [each for each in (*strays, *others) if each.count]
    if as_json:
        sys.stdout.write(canonical.encode_line([_plain(each) for each in found]).decode())
    else:
        _tell_waiting(strays)
        _tell(found)
    if list_only or not found:
        return
    if not yes and not typer.confirm("remove?", err=True):
        raise typer.Exit(0)
    for each in found:
        if not remove_leftover(each):
            say_aside(f"{each.owner}: in use now, left alone")


def _abandon(paths: RunPaths, *, yes: bool, list_only: bool) -> None:
    told = format_count(count_uncommitted(paths), "finished result")
    say(f"{paths.root.name}: {told} not committed, which would be lost for good with its buffer")
    if list_only or (not yes and not typer.confirm("give it up?")):
        return
    done = abandon(paths)
    say(f"gave up {format_count(done.results, 'finished result')} of {paths.root.name}")


def _tell_waiting(strays: list[Leftover]) -> None:
    for each in strays:
        if each.waiting and each.run is not None:
            name, told = address(each.run), format_count(each.waiting, "container")
            say(f"{each.owner}: {told} with work that can be gone on with: lab continue {name}")
            say(f"  to give that up, and remove them: lab clean --abandon {name}")


def _tell(found: list[Leftover]) -> None:
    for each in found:
        say(f"{each.owner}: {each.count} x {each.what}, {format_size(each.size)}")
    say("nothing to clean" if not found else f"in all {format_size(sum(e.size for e in found))}")


def _plain(leftover: Leftover) -> object:
    return {
        "run": None if leftover.run is None else str(leftover.run.root),
        "whose": leftover.owner,
        "what": leftover.what,
        "paths": [str(path) for path in leftover.paths],
        "containers": leftover.containers,
        "size": leftover.size,
    }


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match is None:
        raise InputError("--older-than", f"expected a number with s, m, h or d, like 7d, found {text!r}")
    return int(match[1]) * _UNITS[match[2]]
