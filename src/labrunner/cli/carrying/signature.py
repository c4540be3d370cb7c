"""The command line of a command, made from the table of options.

Commands that carry experiments out have one command line: what is not an option of a command is hidden there,
and refused with a sentence, so that the same words can be tried with each.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args

import typer

from labrunner.cli.pieces import OLD_RUNS, take_option
from labrunner.errors import InputError
from labrunner.experiment.options.asked import Asked, asked_in_words
from labrunner.experiment.options.option import CARRYING, RunOption
from labrunner.experiment.options.table import OPTIONS
from labrunner.store.reading.listing import DEFAULT_RUNS

Act = Callable[[Any, Asked, Mapping[str, Any]], int]
"""Takes the argument, what was asked for, and the words themselves; returns the exit code."""


def add_command(app: typer.Typer, command: str, act: Act, *, argument: Any, does: str) -> None:  # noqa: ANN401 - an annotation
    """Add a command with an argument, and the options that the table has for it."""

    def call(argument: Any, **words: Any) -> None:  # noqa: ANN401 - what typer read
        _refuse_foreign(command, words)
        raise typer.Exit(act(argument, asked_in_words(words), words))

    is_needed = get_args(argument)[0] is str
    first = _parameter("argument", argument, inspect.Parameter.empty if is_needed else None)
    parameters = [first, *(_option(each, command) for each in _known(command))]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command(help=does)(call)


def _known(command: str) -> list[RunOption]:
    alike = set(CARRYING) if command in CARRYING else {command}
    return [each for each in OPTIONS if each.flags and not alike.isdisjoint(each.commands)]


def _option(option: RunOption, command: str) -> inspect.Parameter:
    changes: dict[str, Any] = {"hidden": command not in option.commands}
    if option.name == "log_dir" and command not in CARRYING:
        changes |= OLD_RUNS
    if command == "continue" and option.going_on:
        changes["help"] = option.going_on
    kind = option.word if option.name == "log_dir" else option.word | None
    default = DEFAULT_RUNS if option.name == "log_dir" else None
    return _parameter(option.name, Annotated[kind, take_option(option.name, **changes)], default)


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:  # noqa: ANN401 - for typer
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _refuse_foreign(command: str, words: Mapping[str, Any]) -> None:
    for option in OPTIONS:
        value = words.get(option.name)
        if value is not None and value is not False and value != [] and command not in option.commands:
            raise InputError(option.label, "is not an option of this command")
