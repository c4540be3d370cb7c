"""Resolving a run's experiment anew from where it came from: how a run goes on, and how it is retried."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from labrunner.errors import InputError
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import load
from labrunner.experiment.revising.regrader import bring_grader
from labrunner.experiment.sources.importers import is_there
from labrunner.records.run import RunRecord

Reread: TypeAlias = Callable[[RunRecord, Overrides], Experiment]
"""Resolves the experiment that a record names, with these options. Raises InputError, InputErrors."""


def resolve_again(record: RunRecord, overrides: Overrides, reread: "Reread") -> Experiment:
    """Resolve the experiment that a record names as it is now, with the grader that a regrading brought."""
    return bring_grader(reread(record, overrides), overrides.grader_dir)


def reread_file(record: RunRecord, overrides: Overrides) -> Experiment:
    """Resolve an experiment from its file as it is now."""
    source = str(record.experiment.get("source", ""))
    refuse_gone(source, record)
    return load(Path(source), overrides)


def refuse_gone(source: str, record: RunRecord) -> None:
    """Refuse to read again what is not there any more."""
    if not is_there(source):
        raise InputError(source, f"run {record.run_id} came from this file, and it is gone")
