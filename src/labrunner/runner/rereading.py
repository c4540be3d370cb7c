"""Resolving a run's experiment anew from where it came from: how a run goes on, and how it is retried."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from labrunner.errors import InputError
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import load
from labrunner.experiment.revising.regrader import bring_grader
from labrunner.records.run import RunRecord

Reread: TypeAlias = Callable[[RunRecord, Overrides], Experiment]
"""Resolves the experiment that a record names, with these options. Raises InputError, InputErrors."""


def resolve_again(record: RunRecord, overrides: Overrides, reread: "Reread") -> Experiment:
    """Resolve the experiment that a record names as it is now, with the grader that a regrading brought."""
    return bring_grader(reread(record, overrides), overrides.grader_dir)


def reread_file(record: RunRecord, overrides: Overrides) -> Experiment:
    """Resolve an experiment from its file as it is now."""
    source = Path(str(record.experiment.get("source", "")))
    if not source.is_file():
        raise InputError(str(source), f"run {record.run_id} came from this file, and it is gone")
    return load(source, overrides)
