"""`lab shell`: a throw-away sandbox to look around in, as an agent or its grader would find it."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from labrunner.cli.looking.own_terminal import OwnTerminal
from labrunner.cli.pieces import LogDir, make_app, take_option
from labrunner.display.text.saying import say_aside
from labrunner.errors import InputError
from labrunner.experiment.env_file import secrets_from
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import load
from labrunner.experiment.sources.importers import split_import
from labrunner.records.facts.exit_status import KILLED
from labrunner.runner.own_loop import run_alone
from labrunner.runner.visiting.visit import Role, Visit, Whereabouts, pay_visit, tell_missing
from labrunner.runner.visiting.visited import tell_changed, visit_task, visit_trial
from labrunner.sandbox.execution import ExecCall, ExecEnd
from labrunner.sandbox.terminals.person import TerminalCall
from labrunner.solve.resolving.python_target import is_python_target
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()

SHELL: Final = ("/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh")
LIVELY: Final = ("TERM", "COLORTERM")
"""Variables that say what a terminal can do."""

_Target = Annotated[
    str, typer.Argument(metavar="RUN|EXPERIMENT", help="a run, to look at a trial of it; or an experiment")
]
_What = Annotated[
    str, typer.Argument(metavar="TRIAL|TASK", help="which trial of the run, or task of the experiment")
]
_Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- CMD", help="run this, without a terminal, and end with its exit status"),
]
_Attempt = Annotated[
    int | None,
    typer.Option("--attempt", envvar="LAB_ATTEMPT", min=1, help="which attempt (default: the last)"),
]
_As = Annotated[
    str | None,
    typer.Option(
        "--as",
        envvar="LAB_AS",
        metavar="WHO",
        help="agent or grader (default: grader of a trial, agent of a task)",
    ),
]
_Variant = Annotated[str | None, take_option("variant", help="of a task: which variant (default: the first)")]
_EnvFile = Annotated[Path | None, take_option("env_file")]


@app.command(
    help="Look around in a throw-away sandbox: as the grader finds what a trial's agent left, or as an agent "
    "finds a task. Nothing of a run is changed, and everything is removed at the end."
)
def shell(  # noqa: PLR0913 - the signature is the command line
    target: _Target,
    what: _What,
    command: _Command = None,
    attempt: _Attempt = None,
    role: _As = None,
    variant: _Variant = None,
    env_file: _EnvFile = None,
    log_dir: LogDir = DEFAULT_RUNS,
) -> None:
    """Find the place, and stay in it."""
    if not command and not sys.stdin.isatty():
        told = "is no terminal; give a command to run instead"
        raise InputError("standard input", f"{told}: lab shell {target} {what} -- CMD")
    secrets = secrets_from(env_file)
    if _is_experiment(target):
        if attempt is not None:
            raise InputError("--attempt", "is for trials of a run; a task has no attempts yet")
        place = visit_task(_load(target, what), what, variant, _read_role(role, "agent"))
    else:
        if variant is not None:
            raise InputError(flag("variant"), "is for tasks of an experiment; a trial has its variant")
        place = visit_trial(find_run(log_dir, target), what, attempt, _read_role(role, "grader"))
    if missing := list(tell_missing(place, secrets)):
        say_aside(f"without a value here: {', '.join(missing)}")
    for told in tell_changed(place):
        say_aside(told)
    end = run_alone(_stay_until_signal(place, secrets, log_dir, command or ()))
    raise typer.Exit(_tell_end(end))


async def _stay_until_signal(
    place: Whereabouts, secrets: Mapping[str, str], runs_dir: Path, command: Sequence[str]
) -> ExecEnd:
    """Stay until the command has ended, or until somebody wants our end; everything is removed first."""
    loop, own = asyncio.get_running_loop(), asyncio.current_task()
    assert own is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, own.cancel)

    async def stay(visit: Visit) -> ExecEnd:
        if command:
            return await visit.sandbox.exec(ExecCall(argv=tuple(command)))
        return await _attend(visit, place)

    return await pay_visit(place, secrets, runs_dir, stay)


async def _attend(visit: Visit, place: Whereabouts) -> ExecEnd:
    """Let the person at our terminal look around."""
    _welcome(visit, place)
    terminal = OwnTerminal()
    env = {name: value for name in LIVELY if (value := os.environ.get(name))}
    with terminal.lent():
        call = TerminalCall(argv=SHELL, python=visit.guest.python, env=env)
        return await visit.sandbox.attend(call, terminal)


def _welcome(visit: Visit, place: Whereabouts) -> None:
    task = place.experiment.tasks[place.slot.task_idx].id
    variant = place.experiment.variants[place.slot.variant_idx]
    state = "as it begins" if place.work is None else f"as attempt {place.attempt} left it"
    where = f"task {task}, variant {variant.id}, {state}; {visit.plan_kind}, as the {place.role}"
    is_idle = place.role == "agent" and variant.agent.runs == "nothing"
    say_aside(f"{where}, of which nothing would run" if is_idle else f"{where}, whose command is")
    if not is_idle:
        say_aside(f"  {shlex.join(visit.phase.argv)}")
    if visit.unreached:
        say_aside(f"not reached from here: {', '.join(visit.unreached)}")
    say_aside("`exit` removes everything")


def _load(target: str, task: str) -> Experiment:
    """An experiment, with an agent or without; of other people's tasks only this one has to run here."""
    overrides = Overrides(task_ids=() if split_import(target) is None else (task,))
    return load(Path(target), overrides, needs_agent=False)


def _is_experiment(target: str) -> bool:
    if is_python_target(target):
        told = "is a task written in Python: its solver and scorers run outside of sandboxes"
        raise InputError(target, f"{told}; `lab shell` takes experiment files")
    path = Path(target)
    return split_import(target) is not None or path.is_file() or (path / "experiment.yaml").is_file()


def _read_role(role: str | None, default: Role) -> Role:
    match role or default:
        case "agent":
            return "agent"
        case "grader":
            return "grader"
        case other:
            raise InputError("--as", f"must be agent or grader, found {other!r}")


def _tell_end(end: ExecEnd) -> int:
    """Hand on what a command said; its exit status."""
    sys.stdout.flush()
    sys.stdout.buffer.write(end.stdout)
    sys.stderr.flush()
    sys.stderr.buffer.write(end.stderr)
    if end.over_disk:
        say_aside("ended: it held more than disk_mb allows")
    return KILLED if end.exit_status is None else end.exit_status
