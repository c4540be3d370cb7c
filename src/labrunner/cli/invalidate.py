"""`lab invalidate`: marks trials as not to be used; nothing is rewritten."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from labrunner.cli.options import LogDir, RunName, make_app
from labrunner.cli.saying import say
from labrunner.display.quantities import format_count
from labrunner.engine.provenance import user_name
from labrunner.errors import InputError
from labrunner.query.database import ask
from labrunner.records.canonical import stamp
from labrunner.records.invalidation import InvalidationRow
from labrunner.store.invalidations import add_invalidations
from labrunner.store.listing import DEFAULT_RUNS, find_run

app = make_app()

_Where = Annotated[str, typer.Option("--where", help="which trials: a condition over the view `trials`")]
_Reason = Annotated[str, typer.Option("--reason", help="why they are not to be used")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="only say which")]


@app.command(help="Mark finished trials as not to be used: summaries leave them out, retry runs them again.")
def invalidate(
    run: RunName, where: _Where, reason: _Reason, log_dir: LogDir = DEFAULT_RUNS, dry_run: _DryRun = False
) -> None:
    """Mark trials."""
    if not reason.strip():
        raise InputError("--reason", "is empty; say why, for whoever reads the run later")
    paths = find_run(log_dir, run)
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
