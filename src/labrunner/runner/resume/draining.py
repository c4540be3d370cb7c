"""Collecting what a crashed run's sandboxes still have to give, before its results are taken over.

Rule: nothing new is started, and the run's status stays as the crash left it.
"""

from dataclasses import replace

from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.start import RunOptions, make_executor, make_plan, sit_down
from labrunner.sandbox.door import Survivor
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import read_state
from labrunner.store.rows.single_records import read_run


async def drain(paths: RunPaths, options: RunOptions) -> int:
    """Adopt and collect what lives on of a crashed run; how many attempts that were."""
    if read_state(paths) != "crashed":
        return 0
    record, experiment = read_run(paths), read_experiment(paths)
    executor = make_executor(experiment, options, record.run_id, paths.trial_folders)
    survivors: tuple[Survivor, ...] = ()
    try:
        survivors = await executor.survivors()
    finally:
        if not survivors:
            await executor.close()
    if not survivors:
        return 0
    plan = replace(make_plan(experiment, paths, options, run_id=record.run_id), drains_only=True)
    end = await sit_down(plan, paths, executor, _look_away)
    return end.adopted


async def _look_away(live: Live) -> None:
    del live
