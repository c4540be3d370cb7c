"""`lab import`: other people's tasks, written as an experiment to read, change and keep."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from labrunner.cli.pieces import Json, make_app, take_option
from labrunner.display.foreign import show_refusals
from labrunner.display.text.console import make_console
from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say
from labrunner.experiment.options.table import flag
from labrunner.experiment.sources.importers import IMPORTERS
from labrunner.interop.importers.reviewable import write_import
from labrunner.records.encoding import canonical

app = make_app()

_Kind = Annotated[
    str,
    typer.Argument(metavar="KIND", help=f"{', '.join(IMPORTERS.built_in)}, or what other packages bring"),
]
_Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="a task, or a folder or file of them")]
_Output = Annotated[Path, typer.Option("--output", "-o", help="the folder to write: a new one")]
_Tasks = Annotated[list[str] | None, take_option("sample_id")]
_Skip = Annotated[
    bool, typer.Option("--skip-refused", help="leave out tasks that can't be run here, and say which")
]


@app.command(help="Write other people's tasks as an experiment that asks the same question.")
def import_(
    kind: _Kind,
    source: _Source,
    output: _Output,
    task_id: _Tasks = None,
    skip_refused: _Skip = False,
    as_json: Json = False,
) -> None:
    """Import."""
    written = write_import(kind, source, output, patterns=task_id or (), skips_refused=skip_refused)
    if as_json:
        left_out = {task: [str(each) for each in why] for task, why in written.left_out.items()}
        told = {"folder": str(written.folder), "tasks": written.tasks, "left_out": left_out}
        sys.stdout.write(canonical.encode_line(told).decode())
        return
    if written.left_out:
        make_console().print(show_refusals(written.left_out, written.tasks + len(written.left_out)))
    say(f"wrote {format_count(written.tasks, 'task')} to {output}")
    with_agent = [] if written.agent is None else [flag("agent"), written.agent]
    say(f"next: {shlex.join(['lab', 'run', str(output), *with_agent])}")
