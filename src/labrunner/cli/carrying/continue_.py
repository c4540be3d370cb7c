"""`lab continue`: goes on with a run in place."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from labrunner.cli.carrying.turns import Turn, in_turn
from labrunner.cli.options import Json, LogDir, make_app, pairs, parse_count, parse_threshold
from labrunner.display.sitting import tell_checks, tell_done_before, tell_end, watch
from labrunner.display.text.saying import say, say_aside
from labrunner.errors import ExitCode, InputError, LabError
from labrunner.experiment.env_file import secrets_from
from labrunner.runner.resume.continuing import PolicyChanges, continue_run, find_unfinished
from labrunner.runner.start import RunOptions, default_grace_s
from labrunner.solve.origin import PythonTasks
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run
from labrunner.store.rows.single_records import read_run

app = make_app()

_Run = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="a path, an id, part of one, or `last`; default: the newest unfinished"
    ),
]
_All = Annotated[
    bool, typer.Option("--all", envvar="LAB_ALL", help="every unfinished run here, the newest first")
]
_MaxConcurrency = Annotated[int | None, typer.Option(min=1, help="how many trials at once")]
_MaxConnections = Annotated[int | None, typer.Option(min=1, help="requests at once to a model's provider")]
_FailOnError = Annotated[str | None, typer.Option("--fail-on-error", metavar="[=X]", help="a new threshold")]
_ContinueOnFail = Annotated[bool | None, typer.Option("--continue-on-fail", help="fail only at the end")]
_RetryOnError = Annotated[str | None, typer.Option("--retry-on-error", metavar="[=N]", help="retries")]
_Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        envvar="LAB_SET",
        help="a.b=c: set a field of the policy, such as budget.cost_usd=5 (repeatable)",
    ),
]
_EnvFile = Annotated[
    Path | None, typer.Option(help="a file of K=V lines (default: the one that the run began with)")
]
_Grace = Annotated[float | None, typer.Option(min=0, help="seconds for trials in flight when stopped")]


@app.command(help="Go on with a run in place after a crash, a stop or an error. Committed errors stay.")
def continue_(  # noqa: PLR0913 - the signature is the command line
    run: _Run = None,
    every: _All = False,
    log_dir: LogDir = DEFAULT_RUNS,
    max_concurrency: _MaxConcurrency = None,
    fail_on_error: _FailOnError = None,
    continue_on_fail: _ContinueOnFail = None,
    retry_on_error: _RetryOnError = None,
    max_connections: _MaxConnections = None,
    sets: _Sets = None,
    env_file: _EnvFile = None,
    grace: _Grace = None,
    as_json: Json = False,
) -> None:
    """Go on with one run, or with all; nothing to do is a success."""
    asked = PolicyChanges(
        max_concurrency=max_concurrency,
        fail_on_error=parse_threshold(fail_on_error),
        continue_on_fail=continue_on_fail,
        retry_on_error=parse_count(retry_on_error, "--retry-on-error"),
        max_connections=max_connections,
        sets=pairs(sets, "--set"),
    )
    if run and every:
        raise InputError("--all", f"is every unfinished run, and {run} is one: choose")
    chosen = [find_run(log_dir, run)] if run else find_unfinished(log_dir)
    if not chosen:
        (say_aside if as_json else say)(f"nothing to continue in {log_dir}")
    act = partial(_continue_one, asked=asked, env_file=env_file, grace=grace, as_json=as_json)
    acts = [partial(act, paths) for paths in chosen]
    raise typer.Exit(in_turn([partial(_tolerate, each) for each in acts]) if every else in_turn(acts[:1]))


def _tolerate(act: Callable[[], Turn]) -> Turn:
    """Go on with one of many: if it is refused, the others are not kept waiting."""
    try:
        return act()
    except LabError as error:
        say_aside(f"lab continue: {error.describe()}")
        return Turn(error.exit_code)


def _continue_one(
    paths: RunPaths, asked: PolicyChanges, env_file: Path | None, grace: float | None, *, as_json: bool
) -> Turn:
    remembered, known = read_run(paths).env_file, PythonTasks()
    file = env_file or (Path(remembered) if remembered else None)
    options = RunOptions(
        runs_dir=paths.root.parent,
        secrets=secrets_from(file),
        grace_s=default_grace_s() if grace is None else grace,
        on_checks=tell_checks,
        executor=known.executor,
        reread=known.reread,
    )
    end = asyncio.run(continue_run(paths, options, asked, watch))
    if end is None:
        told = f"{paths.root.name}: nothing to do, it succeeded"
        (say_aside if as_json else say)(told)
        tell_done_before(paths, as_json=as_json)
        return Turn(ExitCode.SUCCESS)
    tell_end(end, as_json=as_json)
    return Turn(end.exit_code, end.is_interrupted)
