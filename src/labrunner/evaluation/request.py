"""How a run is carried out, from what somebody asked for in words or in Python: one way for both."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labrunner.errors import InputError
from labrunner.experiment.env_file import secrets_from
from labrunner.experiment.options.asked import Asked
from labrunner.experiment.options.layers import record_overrides
from labrunner.experiment.options.overrides import Overrides
from labrunner.runner.start import RunOptions, default_grace_s
from labrunner.sandbox.door import Check
from labrunner.solve.origin import PythonTasks
from labrunner.store.reading.listing import default_runs, find_run, nearest_runs


def make_run_options(
    asked: Asked,
    *,
    python: PythonTasks,
    recorded: Overrides | None = None,
    on_checks: Callable[[tuple[Check, ...]], None] | None = None,
    **known: Any,  # noqa: ANN401 - fields of RunOptions
) -> RunOptions:
    """Make the options of a run: what was asked for, else what is `known`, else the default.

    `recorded` are the overrides that a new run keeps.
    """
    given = {"runs_dir": default_runs(), "grace_s": default_grace_s(), **known, **asked.of_run}
    return RunOptions(
        **given,
        secrets=secrets_from(given.get("env_file")),
        overrides={} if recorded is None else record_overrides(recorded),
        on_checks=on_checks,
        executors=python.executor,
        reread=python.reread,
    )


def find_replayed(asked: Asked) -> Asked:
    """The same with the run that is to be replayed as a path, whatever it was called. Raises InputError."""
    overrides = asked.overrides
    if overrides.replay is None:
        return asked
    paths = find_run(nearest_runs(asked.of_run.get("runs_dir") or default_runs()), overrides.replay)
    return replace(asked, overrides=replace(overrides, replay=str(paths.root.resolve())))


def refuse_one_id(asked: Asked, where: str, *, runs: int) -> None:
    """Refuse an id that somebody chose for a run where several are to be made."""
    if asked.of_run.get("run_id") is not None and runs > 1:
        raise InputError(where, f"names one run, but there are {runs} to be made")
