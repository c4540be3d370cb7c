"""`lab verify`: recomputes every digest of a run and names what is wrong."""

import sys

import typer

from labrunner.cli.pieces import Json, LogDir, RunName, make_app
from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say
from labrunner.errors import ExitCode
from labrunner.records.encoding import canonical
from labrunner.store.checking.verification import VerifyReport, verify
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()


@app.command("verify", help="Recompute every digest of a run from its files, and name what is wrong.")
def command(run: RunName, log_dir: LogDir = DEFAULT_RUNS, as_json: Json = False) -> None:
    """Verify a run; exit code 3 when it is not sound."""
    report = verify(find_run(log_dir, run))
    if as_json:
        told = {
            "run_id": report.run_id,
            "state": report.state,
            "is_sound": report.is_sound,
            "is_complete": report.is_complete,
            "planned": report.planned,
            "committed": report.committed,
            "buffered": report.buffered,
            "chain": report.chain,
            "problems": [str(problem) for problem in report.problems],
            "notes": report.notes,
        }
        sys.stdout.write(canonical.encode_line(told).decode())
    else:
        _print(report)
    raise typer.Exit(ExitCode.SUCCESS if report.is_sound else ExitCode.STORAGE)


def _print(report: VerifyReport) -> None:
    for problem in report.problems:
        say(f"wrong: {problem}")
    for note in report.notes:
        say(f"note: {note}")
    word = "sound" if report.is_sound else f"NOT sound: {format_count(len(report.problems), 'problem')}"
    state = f" ({report.state})" if report.state else ""
    done = "complete" if report.is_complete else f"unfinished{state}"
    waiting = f", {report.buffered} in the buffer" if report.buffered else ""
    say(f"{report.run_id}: {word}, {done}: {report.committed} of {report.planned} committed{waiting}")
    if report.chain:
        say(f"digest {report.chain}")
