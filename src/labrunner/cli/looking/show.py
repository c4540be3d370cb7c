"""`lab show`: a run's summary, or one of its trials."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from labrunner.cli.pieces import Json, LogDir, RunName, make_app
from labrunner.cli.plainwords import PlainCommand
from labrunner.cli.requiring import Require, RequireCoverage, RequireStable, read_requirements, tell_unmet
from labrunner.display.decision import DECISION, describe_report
from labrunner.display.results.crash import show_crash
from labrunner.display.results.show import show_run
from labrunner.display.text.console import make_console
from labrunner.display.text.saying import say_aside
from labrunner.display.trials.conversation import Extent
from labrunner.display.trials.liveview import show_under_way, show_unfinished
from labrunner.display.trials.trialview import show_trial
from labrunner.files.layering.layernote import LAYER
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.records.rows import PredictionRow, ScoreRow, SlotRows
from labrunner.runner.reports.advice import advise_on_damage
from labrunner.runner.reports.gaps import newest_attempt
from labrunner.runner.reports.lookup import (
    RunPicture,
    find_barriers,
    find_telling_trial,
    picture,
)
from labrunner.runner.reports.postmortem import Postmortem, examine_crash
from labrunner.runner.reports.results import Judged, judge_run
from labrunner.runner.reports.trialname import find_meant
from labrunner.runner.reports.unfinished import Unfinished, find_any, find_masker, read_ends
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.checking.invalidations import find_mark
from labrunner.store.layout import RunPaths
from labrunner.store.reading.conversations import read_said, write_said
from labrunner.store.reading.earlier_file import read_earlier
from labrunner.store.reading.listing import DEFAULT_RUNS, address, find_run
from labrunner.store.reading.logends import read_end
from labrunner.store.reading.recordings import read_attempt_doors
from labrunner.store.reading.underway import read_under_way
from labrunner.store.rows.outages import read_outages
from labrunner.store.rows.single_records import read_run
from labrunner.trial.collecting.recorded_calls import RECORDED
from labrunner.view.plain.run_json import plain_run
from labrunner.view.plain.trial_json import plain_trial, plain_unfinished

app = make_app()

IN_FLIGHT = {
    "dispatched": "its agent had not ended",
    "barrier": "its agent had ended, no grader had started",
    "grading": "its grader had started",
    "failed": "it was waiting to be tried again",
}
_TOLD = frozenset({TRANSCRIPT, *RECORDED, LAYER})
"""Files that are shown as a conversation, by the figures of calls, or in a line of their own."""
_Trial = Annotated[
    str | None, typer.Argument(metavar="TRIAL", help="a trial's or task's id, part of it, or its number")
]


_Follow = Annotated[
    bool,
    typer.Option(
        "--follow", "-f", help="go on showing what a live run or trial does, until it ends or Ctrl-C"
    ),
]


_Whole = Annotated[
    bool,
    typer.Option(
        "--whole", envvar="LAB_WHOLE", help="all that was said in a trial; as JSON with its transcript, too"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """How a trial is shown."""

    is_whole: bool
    as_json: bool


@app.command(
    cls=PlainCommand,
    help="Show a run's summary, or one trial with attempts, phases and logs; live ones, too.",
)
def show(  # noqa: PLR0913 - the signature is the command line
    run: RunName,
    trial: _Trial = None,
    follow: _Follow = False,
    whole: _Whole = False,
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
            _show_any(paths, trial, is_followed=follow, how=_How(is_whole=whole, as_json=as_json))
            return
        if follow:
            from labrunner.cli.looking.following import follow_run

            follow_run(paths, as_json=as_json)
        seen = picture(paths)
        judged = judge_run(paths, requirements, seen.summary) if requirements else None
        if judged is not None:
            seen = replace(seen, summary=judged.summary)
        with suppress(BrokenPipeError):  # the exit code still counts
            _show_run(seen, judged, as_json=as_json)
    raise typer.Exit(tell_unmet(judged.unmet, judged.notes) if judged is not None else 0)


def _show_run(seen: RunPicture, judged: Judged | None, *, as_json: bool) -> None:
    if as_json:
        told = plain_run(seen, judged.unmet if judged else (), judged.notes if judged else ())
        sys.stdout.write(canonical.encode_line(told).decode())
        return
    crash = examine_crash(seen.paths) if seen.state == "crashed" else None
    under_way = read_under_way(seen.paths) if seen.state == "started" else ()
    name, telling = address(seen.paths), find_telling_trial(seen.paths, seen.status)
    hints = [("the run", str(seen.paths.root)), ("a trial", f"lab show {name} {telling or 'TRIAL'}")]
    if under_way:
        hints.append(("a live one", f"lab show {name} {under_way[0].trial_id} --follow"))
    console = make_console()
    console.print(
        show_run(
            state=seen.state,
            status=seen.status,
            summary=seen.summary,
            hints=hints,
            last_sign_at=crash.last_sign_at if crash else None,
            name=name,
            under_way=show_under_way(under_way, datetime.now(UTC)),
            barriers=find_barriers(seen.paths),
            outages=read_outages(seen.paths),
        )
    )
    if crash:
        console.print("")
        console.print(_crash(seen.paths, crash))
        console.print("")
    if seen.state not in {"started", "success"}:
        console.print(_decide(seen.paths))


def _decide(paths: RunPaths) -> str:
    """Which command goes on: of a report of a run, what does with the run."""
    record = read_run(paths)
    if record.recovered_from is None or record.is_regrade:
        return DECISION
    source = RunPaths(paths.root.with_name(Path(record.recovered_from).name))
    can_go_on = source.root != paths.root and source.run.is_file()
    told = describe_report(address(paths), address(source), can_go_on=can_go_on)
    return f"a report of {source.root.name}, which can't be continued; {'; '.join(told)}"


def _crash(paths: RunPaths, found: Postmortem) -> RenderableType:
    return show_crash(
        last_sign_at=found.last_sign_at,
        has_rebooted=found.has_rebooted,
        committed=found.committed,
        buffered=found.buffered,
        in_flight=[(note.trial_id, IN_FLIGHT[note.state]) for note in found.in_flight],
        owed=found.owed,
        lost=found.lost,
        next_step=f"lab continue {address(paths)}",
    )


def _show_any(paths: RunPaths, trial: str, *, is_followed: bool, how: _How) -> None:
    meant = find_meant(paths, trial)
    if meant.note is not None:
        say_aside(f"note: {meant.note}")
    found = find_any(paths, meant.text)
    if isinstance(found, SlotRows):
        _show_trial(paths, found, how)
        return
    masker = find_masker(paths)
    ended: SlotRows | Unfinished = found
    if is_followed and found.is_live:
        from labrunner.cli.looking.following import follow_trial

        ended = follow_trial(paths, found, masker, as_json=how.as_json)
    if isinstance(ended, SlotRows):
        _show_trial(paths, ended, how)
    else:
        _show_unfinished(paths, ended, read_ends(paths, ended, masker), how)


def _show_unfinished(paths: RunPaths, found: Unfinished, logs: Mapping[str, str], how: _How) -> None:
    if how.as_json:
        sys.stdout.write(canonical.encode_line(plain_unfinished(found, logs)).decode())
        return
    hints = [("files", str(found.folder))]
    extent = _find_extent(paths, found.trial_id, how)
    make_console().print(show_unfinished(found, logs, datetime.now(UTC), hints, extent))


def _show_trial(paths: RunPaths, rows: SlotRows, how: _How) -> None:
    earlier = read_earlier(paths, read_run(paths)).get(rows.schedule_idx, ())
    mark = find_mark(paths, rows.trial_id)
    cut_off = newest_attempt(rows.timing.cut_off) if not rows.timing.attempts else None
    folder = paths.trial(rows.trial_id) / (cut_off or str(rows.attempt))
    said = read_said(folder, _named_logs(rows)) if how.is_whole or not how.as_json else []
    if how.as_json:
        told = plain_trial(rows, earlier, mark) | ({"transcript": said} if how.is_whole else {})
        sys.stdout.write(canonical.encode_line(told).decode())
        return
    logs = {ref.path: _tail(folder / ref.path) for ref in _named_logs(rows) or () if ref.path not in _TOLD}
    logs |= {TRANSCRIPT: write_said(said).decode(errors="replace")} if said else {}
    hints = [("files", str(folder))]
    judged: list[PredictionRow | ScoreRow] = [*rows.predictions, *rows.scores]
    make_console().print(
        show_trial(
            rows.trial,
            rows.timing,
            logs=logs,
            judged=judged,
            earlier=earlier,
            hints=hints,
            extent=_find_extent(paths, rows.trial_id, how),
            doors=read_attempt_doors(folder, _named_logs(rows)),
            mark=mark,
        )
    )


def _named_logs(rows: SlotRows) -> Sequence[FileRef] | None:
    """Logs of the last attempt; None for one that a crash cut off: no row names what was rescued of it."""
    return rows.timing.attempts[-1].logs if rows.timing.attempts else None


def _find_extent(paths: RunPaths, trial_id: str, how: _How) -> Extent:
    return Extent(is_whole=how.is_whole, for_all=f"lab show {address(paths)} {trial_id} --whole")


def _tail(path: Path) -> str:
    data = read_end(path)
    return "(not kept)" if data is None else data.decode(errors="replace")
