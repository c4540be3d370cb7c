"""Collecting what a crashed run's sandboxes still have to give, before its results are taken over.

Rule: nothing new is started, and the run's status stays as the crash left it.
"""

from labrunner.experiment.resolved import Experiment
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.start import Beginning, RunOptions, launch, make_executor
from labrunner.sandbox.door import Survivor
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import read_state
from labrunner.store.rows.single_records import read_run


async def drain(paths: RunPaths, options: RunOptions) -> int:
    """Adopt and collect what lives on of a crashed run; how many attempts that were."""
    if read_state(paths) != "crashed":
        return 0
    experiment = read_experiment(paths)
    if not await _find_survivors(paths, experiment, options):
        return 0
    beginning = Beginning(experiment=experiment, paths=paths, drains_only=True)
    end = await launch(beginning, options, _look_away)
    return end.adopted


async def _find_survivors(
    paths: RunPaths, experiment: Experiment, options: RunOptions
) -> tuple[Survivor, ...]:
    executor = make_executor(experiment, options, read_run(paths).run_id, paths.trial_folders)
    try:
        return await executor.survivors()
    finally:
        await executor.close()


async def _look_away(live: Live) -> None:
    del live
