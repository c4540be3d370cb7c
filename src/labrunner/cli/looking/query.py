"""`lab query`: SQL over runs."""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer

from labrunner.cli.pieces import Json, LogDir, make_app
from labrunner.cli.plainwords import PlainCommand
from labrunner.display.text.blocks import show_rows
from labrunner.display.text.console import make_console
from labrunner.display.text.safetext import sanitise_line
from labrunner.errors import InputError
from labrunner.query.database import SqlAnswer, ask
from labrunner.query.formats import to_cells, write_csv, write_json
from labrunner.query.output import replacing
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()

MOST_ROWS = 200
"""Rows of a table for people; the other formats give all."""

_Words = Annotated[
    list[str],
    typer.Argument(metavar='RUN... "SQL"', help="runs, then one SELECT over their tables"),
]
_Format = Annotated[
    Literal["table", "csv", "json", "parquet"],
    typer.Option("--format", envvar="LAB_FORMAT", help="how rows are written"),
]
_Output = Annotated[Path | None, typer.Option("--output", "-o", help="a file instead of standard output")]

HELP = (
    "Ask runs in SQL. Tables: trials, attempts, scores, predictions, metrics, timings, outages, calls, "
    "doors, events. Read-only: nothing but these tables can be reached. "
    "`DESCRIBE trials` tells a table's columns."
)


@app.command(cls=PlainCommand, help=HELP)
def query(
    words: _Words,
    format_: _Format = "table",
    output: _Output = None,
    log_dir: LogDir = DEFAULT_RUNS,
    as_json: Json = False,
) -> None:
    """Ask."""
    *runs, sql = words
    if not runs:
        raise InputError("RUN", 'expected at least one run and then the SQL: lab query last "select 1"')
    chosen = "json" if as_json else format_
    if chosen == "parquet" and output is None:
        raise InputError("--format parquet", "is not for a terminal; name a file with --output")
    with ask([find_run(log_dir, run) for run in runs], sql) as answer:
        _write(answer, chosen, output)


def _write(answer: SqlAnswer, chosen: str, output: Path | None) -> None:
    if output is None:
        _write_text(answer, chosen, sys.stdout)
        return
    with replacing(output) as place:
        if chosen == "parquet":
            answer.write_parquet(place)
            return
        with place.open("w", encoding="utf-8") as stream:
            _write_text(answer, chosen, stream)


def _write_text(answer: SqlAnswer, chosen: str, stream: TextIO) -> None:
    if chosen == "csv":
        write_csv(answer, stream, clean=sanitise_line if stream.isatty() else str)
    elif chosen == "json":
        write_json(answer, stream)
    else:
        _write_table(answer, stream)


def _write_table(answer: SqlAnswer, stream: TextIO) -> None:
    rows = answer.rows()
    shown = [to_cells(row) for row in islice(rows, MOST_ROWS)]
    more = sum(1 for _ in rows)
    make_console(stream).print(show_rows(answer.columns, answer.types, shown, more=more))
