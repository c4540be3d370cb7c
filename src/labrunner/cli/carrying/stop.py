"""`lab stop`: asks a live run, from another terminal, to stop in order."""

from typing import Annotated

import typer

from labrunner.cli.pieces import LogDir, RunName, make_app
from labrunner.display.text.saying import say
from labrunner.runner.upkeep.halting import stop_run
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()
_Now = Annotated[bool, typer.Option("--now", help="end trials in flight at once, without their grace")]


@app.command(help="Ask a live run to stop in order: as Ctrl-C in its own terminal would.")
def stop(run: RunName, log_dir: LogDir = DEFAULT_RUNS, now: _Now = False) -> None:
    """Ask a run to stop; nothing to stop is a success."""
    paths = find_run(log_dir, run)
    note = stop_run(paths, hurry=now)
    if note is None:
        say(f"{paths.root.name}: not running")
    else:
        say(f"{paths.root.name}: asked process {note.pid} to stop; to go on later: lab continue")
