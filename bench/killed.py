"""A run whose owner was killed: `python -m bench.killed FOLDER TRIALS` owns one until it is.

All trials but one, in the middle of the schedule, are finished: those before it are committed, those behind
it wait in the buffer.
"""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from bench.idle import IdleExecutor
from bench.workload import Shape, make_experiment, split_trials
from labrunner.executor.door import Executor
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.records.completion import Completion
from labrunner.runner.own_loop import run_alone
from labrunner.runner.sitting.sitting import Live, RunEnd, Watch
from labrunner.runner.start import Beginning, RunOptions, launch
from labrunner.sandbox.door import Survivor
from labrunner.store.layout import RunPaths
from labrunner.trial.assignment import Assignment, Notes

READY = b"ready\n"


class StuckExecutor(IdleExecutor):
    """Carries nothing out, and never ends one trial."""

    def __init__(self, stuck: int) -> None:
        """Take the slot of that trial."""
        super().__init__()
        self._stuck = stuck

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Complete at once, or never."""
        if assignment.slot.schedule_idx == self._stuck:
            await asyncio.Event().wait()
        return await super().carry_out(assignment, notes, survivor)


def make_killed_run(folder: Path, trials: int) -> RunPaths:
    """Have a process carry out a run, and kill it when all but one trial are finished."""
    argv = [sys.executable, "-m", "bench.killed", str(folder), str(trials)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        said = owner.stdout.readline()
        owner.kill()
    assert said == READY, "the owner of the run died by itself; see above"
    return RunPaths(folder / "runs" / "bench")


def load_experiment(folder: Path, trials: int) -> Experiment:
    """Write and load the experiment; errors of its trials end no run."""
    tasks, replications = split_trials(trials)
    shape = Shape(tasks=tasks, replications=replications, concurrency=16, sandbox="process")
    experiment = make_experiment(folder, shape)
    return replace(experiment, policy=replace(experiment.policy, fail_on_error=False, min_free_disk_gb=0))


async def sit_at(experiment: Experiment, folder: Path, executor: Executor, watch: Watch) -> RunEnd:
    """Begin a run in `folder`, or go on with it, on this executor."""
    options = RunOptions(runs_dir=folder / "runs", secrets={}, run_id="bench", executors=lambda *_: executor)
    paths = RunPaths(options.runs_dir / "bench")
    beginning = Beginning(experiment=experiment, paths=paths if paths.root.exists() else None)
    return await launch(beginning, options, watch)


def main(folder: Path, trials: int) -> None:
    experiment = load_experiment(folder, trials)
    planned = len(Schedule.of(experiment))

    async def watch(live: Live) -> None:
        while live.tallies.passed < planned - 1:  # noqa: ASYNC110 - looking does not disturb whom it looks at
            await asyncio.sleep(0.01)
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()

    run_alone(sit_at(experiment, folder, StuckExecutor(planned // 2), watch))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
