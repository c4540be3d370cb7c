"""What keywords of `eval()` and its kin ask for.

Named as on the command line. A value of the wrong kind is refused before anything is read or written.
"""

import sys
from collections.abc import Mapping
from typing import Any

from labrunner.errors import InputError
from labrunner.evaluation.keywords import EvalSetOptions
from labrunner.experiment.options import kinds
from labrunner.experiment.options.asked import Asked, asked_in_python
from labrunner.experiment.options.table import find_option
from labrunner.solve.scoring.metrics import Epochs
from labrunner.solve.values.config import SETTINGS


def read_keywords(given: Mapping[str, Any], known: type[EvalSetOptions]) -> Asked:
    """Check options, and sort them by who needs them; `known` are those that there are."""
    _check(given, frozenset(known.__annotations__))
    options = dict(given)
    settings = {name: options.pop(name) for name in given if name in SETTINGS}
    if isinstance(epochs := options.get("epochs"), Epochs):
        options |= {"epochs": epochs.epochs, "reducers": epochs.reducers}
    return asked_in_python({**options, "generate": {name: _own(value) for name, value in settings.items()}})


def check_value(name: str, value: object) -> None:
    """Refuse a value that can't be an option's."""
    if (kind := find_option(name).kind) is not None:
        kind.check(name, value)


def _check(given: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse options that there are not, and values that can't be theirs."""
    for name, value in given.items():
        if name not in known:
            raise InputError(name, f"is no option of a run; there are: {', '.join(sorted(known))}")
        if name not in SETTINGS:
            check_value(name, value)
    for name, kind in SETTINGS.items():
        if kind is kinds.TEXTS:  # others are checked where they are used
            kind.check(name, given.get(name))


def _own(value: object) -> object:
    """A list of our own, which nobody else changes."""
    return list(value) if isinstance(value, tuple | list) else value


def is_displayed(display: object) -> bool:
    """Whether people are shown what happens."""
    match display:
        case None:
            return sys.stderr.isatty()
        case bool():
            return display
        case "none":
            return False
        case "full" | "conversation" | "rich" | "plain" | "log":
            return True
        case _:
            told = "expected true, false, 'none', 'plain' or 'full'"
            raise InputError("display", f"{told}, found {display!r}")
