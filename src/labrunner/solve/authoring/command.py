"""Commands as solver or scorer: exactly the agent and the grader of an experiment file.

A command agent runs inside the trial's sandbox, started and watched like any agent; a command grader runs
there behind the barrier. Fields are those of the experiment file's `agent` and `grader`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labrunner.solve.authoring.scorer import Judge, as_judges, default_metrics
from labrunner.solve.values.description import describe
from labrunner.solve.values.score import Metric


@dataclass(frozen=True, slots=True)
class CommandSolver:
    """An agent that is a command."""

    section: Mapping[str, Any]  # `agent` of an experiment file, not checked yet

    def describe(self) -> object:
        """The section as it was written."""
        return {"name": "command", "arguments": describe(self.section)}


@dataclass(frozen=True, slots=True)
class CommandGrader:
    """A grader that is a command."""

    section: Mapping[str, Any]  # `grader` of an experiment file, not checked yet
    name: str = "command"
    metrics: tuple[Metric, ...] = field(default_factory=default_metrics)

    def describe(self) -> object:
        """The section as it was written."""
        return {"name": self.name, "arguments": describe(self.section), "metrics": describe(self.metrics)}


def command_solver(command: str | Sequence[str], **fields: Any) -> CommandSolver:  # noqa: ANN401 - authored
    """Run a command in the sandbox as the agent. Fields: `dir`, `stdin`, `env`, `secrets`, `timeout_s`, ….

    A text is run by `sh -c`; `$name` puts built-in names in, as in an experiment file.
    """
    return CommandSolver({"command": _plain(command), **fields})


def command_scorer(
    command: str | Sequence[str],
    *,
    metrics: Sequence[Metric] | None = None,
    **fields: Any,  # noqa: ANN401 - authored
) -> CommandGrader:
    """Run a command in the sandbox as the grader. Fields: `dir`, `env`, `secrets`, `timeout_s`, …."""
    chosen = tuple(metrics) if metrics is not None else default_metrics()
    return CommandGrader({"command": _plain(command), **fields}, metrics=chosen)


def split_scorers(
    given: "Callable[..., Any] | CommandGrader | Sequence[Callable[..., Any] | CommandGrader] | None",
) -> tuple[tuple[Judge, ...], CommandGrader | None]:
    """A task's scorers: those in Python, and the command, of which there is at most one."""
    listed = list(given) if isinstance(given, Sequence) else [] if given is None else [given]
    commands = [each for each in listed if isinstance(each, CommandGrader)]
    if len(commands) > 1:
        raise TypeError("a task has at most one command as scorer; let one grader run the others")
    judges = as_judges([each for each in listed if not isinstance(each, CommandGrader)])
    return judges, commands[0] if commands else None


def _plain(command: str | Sequence[str]) -> str | list[str]:
    return command if isinstance(command, str) else list(command)
