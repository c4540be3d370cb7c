"""The commands of `lab`: one table, which the help page shows and from which commands are loaded.

Rule: nothing heavy is imported here, so that `lab --help` answers at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from labrunner.display.decision import DECISION


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: where its code is, and what it does in one line."""

    module: str
    usage: str
    does: str
    aliases: tuple[str, ...] = ()


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "init": Command(
            module="labrunner.cli.keeping.init",
            usage="[DIR]",
            does="write a small runnable experiment with the sandbox that works here",
        ),
        "run": Command(
            module="labrunner.cli.carrying.run",
            usage="[TARGET]",
            does="run an experiment (default: ./experiment.yaml)",
            aliases=("eval",),
        ),
        "import": Command(
            module="labrunner.cli.keeping.importing",
            usage="KIND SOURCE -o DIR",
            does="write tasks of harbor, harbor-job, terminal-bench or swe-bench as an experiment",
        ),
        "plan": Command(
            module="labrunner.cli.carrying.plan", usage="[TARGET]", does="show exactly what would run"
        ),
        "doctor": Command(
            module="labrunner.cli.carrying.doctor",
            usage="[TARGET]",
            does="check sandbox, disk, secrets and storage before anything is spent",
        ),
        "continue": Command(
            module="labrunner.cli.carrying.continue_",
            usage="[RUN]",
            does="go on in place after a crash, a stop or an error",
        ),
        "retry": Command(
            module="labrunner.cli.carrying.retry",
            usage="RUN...",
            does="a new run that takes over what was good and runs the rest",
            aliases=("eval-retry",),
        ),
        "set": Command(
            module="labrunner.cli.carrying.set_",
            usage="TARGET...",
            does="several experiments into one directory, until all have succeeded",
            aliases=("eval-set",),
        ),
        "stop": Command(
            module="labrunner.cli.carrying.stop",
            usage="RUN",
            does="ask a live run, from another terminal, to stop in order",
        ),
        "show": Command(
            module="labrunner.cli.looking.show",
            usage="RUN [TRIAL]",
            does="the summary of a run, or one trial with its attempts, phases and logs",
        ),
        "shell": Command(
            module="labrunner.cli.looking.shell",
            usage="RUN TRIAL | EXPERIMENT TASK",
            does="look around in a throw-away sandbox, as a grader or an agent would find it",
        ),
        "view": Command(
            module="labrunner.cli.looking.viewing",
            usage="[RUN|DIR]",
            does="look at runs in a browser: live, every trial, nothing fetched from elsewhere",
        ),
        "compare": Command(
            module="labrunner.cli.looking.compare",
            usage="RUN [RUN]...",
            does="is B better than A, by how much, how sure: variants of a run, or runs, task by task",
        ),
        "query": Command(
            module="labrunner.cli.looking.query",
            usage='RUN... "SQL"',
            does="SQL over trials, attempts, scores, predictions, metrics, timings, events",
        ),
        "export": Command(
            module="labrunner.cli.looking.export",
            usage="RUN --to FORMAT",
            does="write a run as inspect, csv, parquet, junit, markdown or html",
        ),
        "log": Command(
            module="labrunner.cli.looking.log",
            usage="list|recover|show",
            does="runs of a directory; a readable report of a crashed one",
        ),
        "regrade": Command(
            module="labrunner.cli.carrying.regrade",
            usage="RUN",
            does="grade kept workspaces again, into a new run; no agent runs",
        ),
        "invalidate": Command(
            module="labrunner.cli.looking.invalidate",
            usage="RUN --where SQL --reason TEXT",
            does="mark trials as not to be used; nothing is rewritten",
        ),
        "verify": Command(
            module="labrunner.cli.looking.verify",
            usage="RUN",
            does="recompute every digest of a run and name what is wrong",
        ),
        "clean": Command(
            module="labrunner.cli.keeping.clean",
            usage="[--list] [--yes]",
            does="say what old runs left behind, then remove it",
        ),
        "agents": Command(
            module="labrunner.cli.keeping.agents",
            usage="list|show|install|remove",
            does="agents that are known by name, and what of them is installed here",
        ),
        "completion": Command(
            module="labrunner.cli.keeping.completion_script",
            usage="bash|zsh|fish",
            does="a script that completes commands, options and runs in your shell",
        ),
    }
)


def find(name: str) -> Command | None:
    """The command with that name or alias."""
    if name in COMMANDS:
        return COMMANDS[name]
    return next((command for command in COMMANDS.values() if name in command.aliases), None)


def help_page() -> str:
    """What `lab --help` prints."""
    left = {name: f"{_names(name, command)} {command.usage}" for name, command in COMMANDS.items()}
    width = max(map(len, left.values()))
    rows = [f"  {left[name]:<{width}}  {command.does}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: lab COMMAND [OPTIONS]",
            "",
            "Runs AI agents on benchmark tasks in sandboxes, grades each trial in its own sandbox,",
            "and commits every result durably in a fixed order.",
            "",
            *rows,
            "",
            "RUN is a path, an id, a unique part of an id, or `last`.",
            f"What next: {DECISION}.",
            "`lab COMMAND --help` tells a command's options; each can also be set as LAB_<OPTION>.",
        ]
    )


def _names(name: str, command: Command) -> str:
    return "|".join([name, *command.aliases])
