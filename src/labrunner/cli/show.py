"""`lab show`: a run's summary, or one of its trials."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from labrunner.cli.commands import DECISION
from labrunner.cli.options import Json, LogDir, RunName, make_app
from labrunner.cli.plainwords import PlainCommand
from labrunner.cli.requiring import Require, RequireCoverage, RequireStable, read_requirements, tell_unmet
from labrunner.display.console import make_console
from labrunner.display.crash import show_crash
from labrunner.display.show import show_run
from labrunner.display.trialview import show_trial
from labrunner.engine.advice import advise_on_damage
from labrunner.engine.gaps import newest_attempt
from labrunner.engine.lookup import RunPicture, find_telling_trial, find_trial, picture
from labrunner.engine.postmortem import Postmortem, examine_crash
from labrunner.engine.results import find_unmet_in, read_results
from labrunner.records import canonical
from labrunner.records.rows import PredictionRow, ScoreRow, SlotRows
from labrunner.store.layout import RunPaths
from labrunner.store.listing import DEFAULT_RUNS, address, find_run
from labrunner.store.transcripts import TRANSCRIPT

app = make_app()

LOG_TAIL_BYTES = 64 * 1024
IN_FLIGHT = {
    "dispatched": "its agent had not ended",
    "barrier": "its agent had ended, no grader had started",
    "grading": "its grader had started",
    "failed": "it was waiting to be tried again",
}
_Trial = Annotated[
    str | None, typer.Argument(metavar="[TRIAL]", help="a trial's id, part of it, or its number")
]


@app.command(cls=PlainCommand, help="Show a run's summary, or one trial with attempts, phases and logs.")
def show(  # noqa: PLR0913 - the signature is the command line
    run: RunName,
    trial: _Trial = None,
    log_dir: LogDir = DEFAULT_RUNS,
    require: Require = None,
    require_stable: RequireStable = False,
    require_coverage: RequireCoverage = None,
    as_json: Json = False,
) -> None:
    """Show a run or a trial."""
    requirements = read_requirements(require, is_stable=require_stable, coverage=require_coverage)
    paths = find_run(log_dir, run)
    with advise_on_damage(paths):
        if trial is not None:
            _show_trial(paths, find_trial(paths, trial), as_json=as_json)
            return
        seen = picture(paths)
        unmet = find_unmet_in(read_results(paths), requirements, seen.summary) if requirements else ()
        with suppress(BrokenPipeError):  # the exit code still counts
            _show_run(seen, unmet, as_json=as_json)
    raise typer.Exit(tell_unmet(unmet))


def _show_run(seen: RunPicture, unmet: tuple[str, ...], *, as_json: bool) -> None:
    crash = examine_crash(seen.paths) if seen.state == "crashed" else None
    if as_json:
        told = {
            "run": str(seen.paths.root),
            "state": seen.state,
            "status": seen.status,
            "summary": seen.summary,
            "unmet": unmet,
            **({"crash": _plain(crash)} if crash else {}),
        }
        sys.stdout.write(canonical.encode_line(told).decode())
        return
    name, telling = address(seen.paths), find_telling_trial(seen.paths, seen.status)
    hints = [("the run", str(seen.paths.root)), ("a trial", f"lab show {name} {telling or 'TRIAL'}")]
    console = make_console()
    console.print(
        show_run(
            state=seen.state,
            status=seen.status,
            summary=seen.summary,
            hints=hints,
            last_sign_at=crash.last_sign_at if crash else None,
            name=name,
        )
    )
    if crash:
        console.print("")
        console.print(_crash(seen.paths, crash))
        console.print("")
    if seen.state not in {"started", "success"}:
        console.print(DECISION)


def _plain(found: Postmortem) -> dict[str, object]:
    """What is known about a crash, for programs."""
    return {
        "last_sign_at": found.last_sign_at,
        "has_rebooted": found.has_rebooted,
        "committed": found.committed,
        "buffered": found.buffered,
        "in_flight": [
            {"trial_id": note.trial_id, "attempt": note.attempt, "state": note.state}
            for note in found.in_flight
        ],
        "owed": found.owed,
    }


def _crash(paths: RunPaths, found: Postmortem) -> RenderableType:
    return show_crash(
        last_sign_at=found.last_sign_at,
        has_rebooted=found.has_rebooted,
        committed=found.committed,
        buffered=found.buffered,
        in_flight=[(note.trial_id, IN_FLIGHT[note.state]) for note in found.in_flight],
        owed=found.owed,
        next_step=f"lab continue {address(paths)}",
    )


def _show_trial(paths: RunPaths, rows: SlotRows, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(canonical.encode_line(rows).decode())
        return
    cut_off = newest_attempt(rows.timing.cut_off) if not rows.timing.attempts else None
    folder = paths.trial(rows.trial_id) / (cut_off or str(rows.attempt))
    logs = {name: _tail(folder / name) for name in _log_names(rows)}
    hints = [("files", str(folder))]
    judged: list[PredictionRow | ScoreRow] = [*rows.predictions, *rows.scores]
    make_console().print(show_trial(rows.trial, rows.timing, logs=logs, judged=judged, hints=hints))


def _log_names(rows: SlotRows) -> list[str]:
    """Logs of the last attempt; of one that a crash cut off, what was rescued of it."""
    if not rows.timing.attempts and rows.timing.cut_off:
        return [TRANSCRIPT]
    return [ref.path for attempt in rows.timing.attempts[-1:] for ref in attempt.logs]


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(not kept)"
