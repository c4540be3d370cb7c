"""`lab show`: a run's summary, or one of its trials."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from labrunner.cli.commands import DECISION
from labrunner.cli.options import DEFAULT_RUNS, Json, LogDir, RunName, make_app
from labrunner.display.console import make_console
from labrunner.display.show import show_run
from labrunner.display.trialview import show_trial
from labrunner.engine.lookup import RunPicture, find_trial, picture
from labrunner.records import canonical
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths
from labrunner.store.listing import find_run

app = make_app()

LOG_TAIL_BYTES = 64 * 1024
_Trial = Annotated[
    str | None, typer.Argument(metavar="[TRIAL]", help="a trial's id, part of it, or its number")
]


@app.command(help="Show a run's summary, or one trial with attempts, phases and logs.")
def show(run: RunName, trial: _Trial = None, log_dir: LogDir = DEFAULT_RUNS, as_json: Json = False) -> None:
    """Show a run or a trial."""
    paths = find_run(log_dir, run)
    if trial is not None:
        _show_trial(paths, find_trial(paths, trial), as_json=as_json)
    else:
        _show_run(picture(paths), as_json=as_json)


def _show_run(seen: RunPicture, *, as_json: bool) -> None:
    if as_json:
        told = {
            "run": str(seen.paths.root),
            "state": seen.state,
            "status": seen.status,
            "summary": seen.summary,
        }
        sys.stdout.write(canonical.encode_line(told).decode())
        return
    hints = [("the run", str(seen.paths.root)), ("a trial", f"lab show {seen.paths.root.name} TRIAL")]
    console = make_console()
    console.print(show_run(state=seen.state, status=seen.status, summary=seen.summary, hints=hints))
    if seen.state not in {"started", "success"}:
        console.print(DECISION)


def _show_trial(paths: RunPaths, rows: SlotRows, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(canonical.encode_line(rows).decode())
        return
    folder = paths.attempt(rows.trial_id, rows.attempt)
    logs = {name: _tail(folder / name) for name in _log_names(rows)}
    hints = [("files", str(folder))]
    make_console().print(show_trial(rows.trial, rows.timing, logs=logs, hints=hints))


def _log_names(rows: SlotRows) -> list[str]:
    return [ref.path for ref in rows.timing.attempts[-1].logs]


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(not kept)"
