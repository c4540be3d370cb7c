"""Overrides of a run, kept and read back, and those of its retry laid over them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from labrunner.errors import InputError
from labrunner.experiment.options.option import Entry, Override
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import OPTIONS, OVERRIDES, flag


def record_overrides(overrides: Overrides) -> dict[str, object]:
    """Overrides as plain values, for a run's record."""
    plain: dict[str, object] = msgspec.to_builtins(overrides)
    return plain


def read_overrides(recorded: Mapping[str, object]) -> Overrides:
    """Overrides as a run's record keeps them; a run that is older than an option did not use it."""
    return msgspec.convert(recorded, Overrides)


def merge_overrides(old: Overrides, new: Overrides) -> Overrides:
    """Options of a retry laid over those of the run that is retried."""
    names = {each.name: each for each in OVERRIDES}
    merged = {name: _merge(each, getattr(old, name), getattr(new, name)) for name, each in names.items()}
    return Overrides(**merged)


def _merge(override: Override, old: Any, new: Any) -> Any:  # noqa: ANN401 - any option's value
    match override.layering:
        case "name by name":
            return {**old, **new}
        case "one after another":
            return (*old, *new)
        case "newest":
            return old if new in (None, ()) else new


def refuse_python(overrides: Overrides, where: str) -> None:
    """Refuse options that mean something for Python tasks alone."""
    for option in OPTIONS:
        if not option.is_for_python_tasks or option.override is None:
            continue
        if option.name == "model" and overrides.agents:
            continue  # it is for the agent that stands in
        given = getattr(overrides, option.override.name)
        if given not in (None, (), {}) and (not isinstance(option.goal, Entry) or option.goal.key in given):
            told = f"is for tasks written in Python; {where} is an experiment file"
            beside = f", whose agent is told one beside {flag('agent')}" if option.name == "model" else ""
            raise InputError(option.label, told + beside)


def refuse_files(overrides: Overrides) -> None:
    """Refuse options that mean something for experiment files alone."""
    if overrides.agents:
        told = "is for experiment files; a task written in Python has a solver instead"
        raise InputError(flag("agent"), f"{told}: {flag('solver')}")
