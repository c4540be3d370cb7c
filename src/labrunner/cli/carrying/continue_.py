"""`lab continue`: goes on with a run in place."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from labrunner.cli.beside import with_pages
from labrunner.cli.carrying.signature import add_command
from labrunner.cli.carrying.turns import Turn, in_turn
from labrunner.cli.pieces import make_app
from labrunner.display.sitting import tell_checks, tell_done_before, tell_end, watch
from labrunner.display.text.saying import say, say_aside
from labrunner.errors import ExitCode, InputError, LabError
from labrunner.evaluation.request import find_replayed, make_run_options
from labrunner.experiment.options.asked import Asked
from labrunner.experiment.options.table import flag
from labrunner.runner.own_loop import run_alone
from labrunner.runner.resume.continuing import continue_run, find_unfinished
from labrunner.solve.origin import PythonTasks
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import find_run
from labrunner.store.rows.single_records import read_run

app = make_app()

_Run = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="a path, an id, part of one, or `last`; default: the newest unfinished"
    ),
]


def continue_(run: str | None, asked: Asked, words: Mapping[str, Any]) -> int:
    """Go on with one run, or with all; nothing to do is a success."""
    del words
    asked = find_replayed(asked)
    log_dir, every = asked.of_run["runs_dir"], asked.of_command.get("every", False)
    if run and every:
        raise InputError(flag("all"), f"is every unfinished run, and {run} is one: choose")
    chosen = [find_run(log_dir, run)] if run else find_unfinished(log_dir)
    if not chosen:
        _tell(f"nothing to continue in {log_dir}", asked)
    acts = [partial(_continue_one, paths, asked) for paths in chosen]
    return in_turn([partial(_tolerate, each) for each in acts]) if every else in_turn(acts[:1])


def _tolerate(act: Callable[[], Turn]) -> Turn:
    """Go on with one of many: if it is refused, the others are not kept waiting."""
    try:
        return act()
    except LabError as error:
        say_aside(f"lab continue: {error.describe()}")
        return Turn(error.exit_code)


def _continue_one(paths: RunPaths, asked: Asked) -> Turn:
    remembered = read_run(paths).env_file
    options = make_run_options(
        asked,
        python=PythonTasks(),
        on_checks=tell_checks,
        env_file=Path(remembered) if remembered else None,
    )
    options = replace(options, runs_dir=paths.root.parent)
    watching = with_pages(watch, opens=bool(asked.of_command.get("view")))
    end = run_alone(continue_run(paths, options, asked.overrides, watching))
    if end is None:
        _tell(f"{paths.root.name}: nothing to do, it succeeded", asked)
        tell_done_before(paths, as_json=_is_json(asked))
        return Turn(ExitCode.SUCCESS)
    tell_end(end, as_json=_is_json(asked))
    return Turn(end.exit_code, end.is_interrupted)


def _tell(text: str, asked: Asked) -> None:
    (say_aside if _is_json(asked) else say)(text)


def _is_json(asked: Asked) -> bool:
    return bool(asked.of_command.get("as_json"))


add_command(
    app,
    "continue",
    continue_,
    argument=_Run,
    does="Go on with a run in place after a crash, a stop or an error. Committed errors stay.",
)
