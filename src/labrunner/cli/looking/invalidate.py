"""`lab invalidate`: marks trials as not to be used; nothing is rewritten."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from labrunner.cli.pieces import LogDir, RunName, make_app, take_option
from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say
from labrunner.errors import InputError
from labrunner.query.database import ask
from labrunner.records.encoding.canonical import stamp
from labrunner.records.facts.invalidation import InvalidationRow
from labrunner.runner.upkeep.provenance import user_name
from labrunner.store.checking.invalidations import add_invalidations, mend_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()

_Where = Annotated[
    str | None, typer.Option("--where", help="which trials: a condition over the view `trials`")
]
_Reason = Annotated[str | None, typer.Option("--reason", help="why they are not to be used")]
_Mend = Annotated[
    bool, typer.Option("--mend", help="keep the marks of a damaged file that can be read; set the file aside")
]
_DryRun = Annotated[bool, take_option("dry_run", help="only say which")]


@app.command(help="Mark finished trials as not to be used: summaries leave them out, retry runs them again.")
def invalidate(
    run: RunName,
    where: _Where = None,
    reason: _Reason = None,
    log_dir: LogDir = DEFAULT_RUNS,
    dry_run: _DryRun = False,
    mend: _Mend = False,
) -> None:
    """Mark trials, or mend the marks."""
    paths = find_run(log_dir, run)
    if mend:
        _mend(paths)
        return
    if where is None:
        raise InputError("--where", "is missing; say which trials, as a condition over the view `trials`")
    if reason is None or not reason.strip():
        raise InputError("--reason", "is empty; say why, for whoever reads the run later")
    _mark(paths, where, reason, dry_run=dry_run)


def _mend(paths: RunPaths) -> None:
    found = mend_invalidations(paths)
    lost = max(0, found.counted - len(found.rows))
    gone = f"; {format_count(lost, 'mark')} can't be read any more: mark those trials again" if lost else ""
    say(f"{format_count(len(found.rows), 'mark')} kept in {paths.root.name}{gone}")


def _mark(paths: RunPaths, where: str, reason: str, *, dry_run: bool) -> None:
    with ask(
        [paths], f"SELECT trial_id, schedule_idx FROM trials WHERE ({where}) ORDER BY schedule_idx"
    ) as found:
        chosen = [(str(trial), int(str(idx))) for trial, idx in found.rows()]
    for trial, _ in chosen:
        say(trial)
    if not dry_run and chosen:
        now, who = stamp(datetime.now(UTC)), user_name()
        marks = [
            InvalidationRow(
                schema_version="invalidation_v1",
                trial_id=trial,
                schedule_idx=idx,
                reason=reason,
                who=who,
                at=now,
            )
            for trial, idx in chosen
        ]
        add_invalidations(paths, marks)
    say(f"{format_count(len(chosen), 'trial')} {'would be ' if dry_run else ''}marked in {paths.root.name}")
