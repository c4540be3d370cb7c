"""`lab regrade`: grades kept workspaces again, into a new run."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from labrunner.cli.options import Json, LogDir, RunName, make_app
from labrunner.display.sitting import tell_checks, tell_end, watch
from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say_aside
from labrunner.experiment.env_file import secrets_from
from labrunner.runner.again.regradechoice import TrialChoice
from labrunner.runner.again.regrading import Regrading, regrade_run
from labrunner.runner.start import RunOptions, default_grace_s
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()

_Grader = Annotated[
    Path | None, typer.Option("--grader", help="another grader's folder (default: the run's own)")
]
_Times = Annotated[
    int, typer.Option("--times", min=1, help="grade each that often, and say whose verdicts differ")
]
_RunId = Annotated[str | None, typer.Option("--run-id", help="the new run's id, instead of a made one")]
_TaskIds = Annotated[
    list[str] | None, typer.Option("--task-id", "--sample-id", help="only these tasks (glob; repeatable)")
]
_Variants = Annotated[list[str] | None, typer.Option("--variant", help="only this variant (repeatable)")]
_Trials = Annotated[
    list[str] | None,
    typer.Option("--trial", help="only this trial: its id, part of it, or a glob (repeatable)"),
]
_EnvFile = Annotated[
    Path | None, typer.Option("--env-file", help="a file of K=V lines with values of secrets")
]


@app.command(help="Grade a run's kept workspaces again, with a new or the same grader; no agent runs.")
def regrade(  # noqa: PLR0913 - the signature is the command line
    run: RunName,
    grader: _Grader = None,
    times: _Times = 1,
    task_id: _TaskIds = None,
    variant: _Variants = None,
    trial: _Trials = None,
    log_dir: LogDir = DEFAULT_RUNS,
    run_id: _RunId = None,
    env_file: _EnvFile = None,
    as_json: Json = False,
) -> None:
    """Grade again."""
    options = RunOptions(
        runs_dir=log_dir,
        secrets=secrets_from(env_file),
        run_id=run_id,
        grace_s=default_grace_s(),
        on_checks=tell_checks,
    )
    choice = TrialChoice(
        task_ids=tuple(task_id or ()), variants=tuple(variant or ()), trials=tuple(trial or ())
    )
    regrading = Regrading(grader_dir=grader, times=times, choice=choice)
    done = asyncio.run(regrade_run(find_run(log_dir, run), regrading, options, watch))
    tell_end(done.end, as_json=as_json)
    if done.not_kept:
        sys.stderr.write(
            f"{format_count(done.not_kept, 'trial')} without a kept workspace: not graded; "
            "a run with --keep-workspace always keeps all\n"
        )
    if done.masked:
        sys.stderr.write(
            f"{format_count(done.masked, 'workspace')} graded without the secrets that were masked there: "
            "verdicts that depend on them may differ\n"
        )
    if times > 1:
        sys.stderr.write(
            f"{format_count(len(done.unstable), 'trial')} judged differently in {times} gradings\n"
        )
        for name in done.unstable:
            say_aside(f"  {name}")
    raise typer.Exit(int(done.end.exit_code))
