"""Options as somebody gave them, in words or in Python, sorted by who needs them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labrunner.experiment.options.option import Entry, OfCommand, OfRun, RunOption
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for; what was not given is not there."""

    overrides: Overrides
    of_run: Mapping[str, Any]
    """Fields of `RunOptions`."""
    of_command: Mapping[str, Any]
    """What the command or function looks at itself."""


def asked_in_words(words: Mapping[str, Any]) -> Asked:
    """Sort what a command line gave, by the names of options."""
    return _sort(
        (option, option.read(words[option.name], option.label))
        for option in OPTIONS
        if words.get(option.name) not in (None, [], ())
    )


def asked_in_python(given: Mapping[str, Any]) -> Asked:
    """Sort what keywords gave. None leaves an option, but takes a limit away."""
    return _sort(
        (option, None if given[option.name] is None else option.take(given[option.name], option.name))
        for option in OPTIONS
        if option.name in given and (given[option.name] is not None or isinstance(option.goal, Entry))
    )


def _sort(values: Iterator[tuple[RunOption, Any]]) -> Asked:
    overrides: dict[str, Any] = {}
    of_run: dict[str, Any] = {}
    of_command: dict[str, Any] = {}
    for option, value in values:
        match option.goal:
            case OfRun(field):
                of_run[field] = value
            case OfCommand(field):
                of_command[field] = value
            case Entry(override, key):
                overrides[override.name] = {**overrides.get(override.name, {}), key: value}
            case goal if goal.override.layering == "one after another":
                overrides[goal.override.name] = (*overrides.get(goal.override.name, ()), *value)
            case goal:
                overrides[goal.override.name] = value
    return Asked(overrides=Overrides(**overrides), of_run=of_run, of_command=of_command)
