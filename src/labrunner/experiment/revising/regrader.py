"""Another grader for every task of an experiment: what `lab regrade --grader` asks for."""

from dataclasses import replace
from pathlib import Path

from labrunner.errors import InputError
from labrunner.experiment.digests import digest_experiment, digest_task
from labrunner.experiment.folders import digest_folder
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment, Folder, TaskSpec


def bring_grader(experiment: Experiment, grader_dir: str | None) -> Experiment:
    """The experiment with this folder as every task's grader; as it is where there is none."""
    if grader_dir is None:
        return experiment
    place = Path(grader_dir)
    if not place.is_dir():
        raise InputError(grader_dir, f"is not a folder; {flag('grader')} takes a grader's folder")
    place = place.resolve()
    folder = Folder(path=str(place), digest=digest_folder(place))
    new = replace(experiment, tasks=tuple(_bring(task, folder) for task in experiment.tasks))
    return replace(new, digest=digest_experiment(new))


def _bring(task: TaskSpec, folder: Folder) -> TaskSpec:
    new = replace(task, grader=replace(task.grader, dir=folder))
    return replace(new, digest=digest_task(new))
