"""`lab log`: the runs of a directory."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from labrunner.cli.looking import show
from labrunner.cli.pieces import Json, LogDir, RunName, make_app
from labrunner.display.decision import describe_report
from labrunner.display.results.runs import show_runs
from labrunner.display.text.console import make_console
from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say
from labrunner.errors import InputError
from labrunner.records.encoding import canonical
from labrunner.runner.resume.recovering import recover_run, recoverable
from labrunner.store.reading.glancing import glance_at
from labrunner.store.reading.listing import (
    DEFAULT_RUNS,
    RunListing,
    address,
    count_again,
    find_run,
    list_runs,
)
from labrunner.view.plain.run_json import plain_listing, states_of

app = make_app()

VARIABLES = {"auto_envvar_prefix": "LAB"}
"""Without this a variable would have to name the subcommand, too."""

STATES = ("started", "running", "crashed", "success", "error", "cancelled", "unreadable")
_Status = Annotated[
    str | None,
    typer.Option(help="only runs in this state; `started` are those without an end: running and crashed"),
]


_Run = Annotated[
    str | None, typer.Argument(metavar="RUN", help="a path, an id, a unique part of an id, or `last`")
]
_ListOnly = Annotated[bool, typer.Option("--list", envvar="LAB_LIST", help="only list crashed runs")]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="put the report in the run's place")]
_Output = Annotated[
    Path | None, typer.Option("--output", help="where the report goes (default: beside the run)")
]


@app.callback(help="Runs of a directory.")
def log() -> None:
    """Group the commands below."""


@app.command("list", context_settings=VARIABLES, help="List runs, the newest first.")
def list_(log_dir: LogDir = DEFAULT_RUNS, status: _Status = None, as_json: Json = False) -> None:
    """List runs."""
    if status is not None and status not in STATES:
        raise InputError("--status", f"there is no state {status!r}; there are: {', '.join(STATES)}")
    runs = [count_again(run) for run in list_runs(log_dir) if status is None or status in states_of(run)]
    if as_json:
        sys.stdout.write(canonical.encode_line([plain_listing(run) for run in runs]).decode())
    else:
        _show(runs, where=str(log_dir), sought=status)


@app.command("show", context_settings=VARIABLES, help="Show a run's summary (= `lab show`).")
def show_(run: RunName, log_dir: LogDir = DEFAULT_RUNS, as_json: Json = False) -> None:
    """Show a run."""
    show.show(run, log_dir=log_dir, as_json=as_json)


@app.command(
    "recover", context_settings=VARIABLES, help="Make a readable report of a crashed run; nothing is run."
)
def recover(
    run: _Run = None,
    log_dir: LogDir = DEFAULT_RUNS,
    list_only: _ListOnly = False,
    overwrite: _Overwrite = False,
    output: _Output = None,
    as_json: Json = False,
) -> None:
    """List crashed runs, or recover one."""
    if list_only:
        runs = [count_again(each) for each in recoverable(log_dir)]
        if as_json:
            sys.stdout.write(canonical.encode_line([plain_listing(each) for each in runs]).decode())
        else:
            _show(runs, where=str(log_dir), sought="crashed")
        return
    if run is None:
        raise InputError("RUN", "which one? `lab log recover --list` lists crashed runs")
    paths = find_run(log_dir, run)
    done = asyncio.run(recover_run(paths, output=output, overwrite=overwrite))
    if as_json:
        told = {
            "run": str(done.paths.root),
            "recovered": done.recovered,
            "owed": done.owed,
            "damaged": done.damaged,
            "lost": done.lost,
        }
        sys.stdout.write(canonical.encode_line(told).decode())
        return
    say(f"Recovered {format_count(done.recovered, 'trial')} to {done.paths.root}")
    if done.lost:
        say(done.lost)
    if done.damaged:
        say(
            f"{format_count(done.damaged, 'committed trial')} damaged, so left out; "
            f"see: lab verify {address(paths)}"
        )
    if done.owed:
        say(f"{format_count(done.owed, 'trial')} failed or never finished; nothing was run")
        report, can_go_on = shlex.quote(str(done.paths.root)), not done.damaged and not overwrite
        for line in describe_report(report, address(paths), can_go_on=can_go_on):
            say(f"  {line}")


def _show(runs: list[RunListing], *, where: str, sought: str | None) -> None:
    outcomes = {run.paths: glance_at(run.paths, run.state) for run in runs}
    make_console().print(show_runs(runs, where=where, sought=sought, outcomes=outcomes))
