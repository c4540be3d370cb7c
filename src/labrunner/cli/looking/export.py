"""`lab export`: a run in formats that other tools read."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from labrunner.cli.pieces import Json, LogDir, RunName, make_app
from labrunner.display.text.saying import say
from labrunner.errors import InputError
from labrunner.interop.registry import EXPORTERS, export_run, find_exporter
from labrunner.records.encoding import canonical
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()

_To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help=f"{', '.join(EXPORTERS.built_in)}, or what other packages bring; "
        "inspect writes one .eval log a variant",
        autocompletion=lambda: list(EXPORTERS.built_in),
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="the file (for several .eval logs: the folder), not RUN_ID.<ending>; - prints it",
    ),
]
_Full = Annotated[bool, typer.Option("--full", help="html: cut no text, however large the file becomes")]


@app.command(help="Write a run in a format that other tools read.")
def export(
    run: RunName,
    to: _To,
    output: _Output = None,
    full: _Full = False,
    log_dir: LogDir = DEFAULT_RUNS,
    as_json: Json = False,
) -> None:
    """Export."""
    paths = find_run(log_dir, run)
    if output == Path("-"):
        _print(paths, to, is_full=full)
        return
    made = export_run(paths, to, output, is_full=full)
    if as_json:
        sys.stdout.write(canonical.encode_line({"files": [str(path) for path in made]}).decode())
    else:
        for path in made:
            say(str(path))


def _print(paths: RunPaths, to: str, *, is_full: bool) -> None:
    chosen = find_exporter(to)
    if chosen.has_own_files:
        raise InputError("--output", f"{chosen.ending} is an archive: name a file or a folder for it")
    with TemporaryDirectory() as folder:
        for path in export_run(paths, to, Path(folder) / "export", is_full=is_full):
            sys.stdout.buffer.write(path.read_bytes())
    sys.stdout.flush()
