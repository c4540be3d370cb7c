"""Whether something hidden lies where an agent can read it: a mistake that no sandbox can mend."""

from collections.abc import Mapping
from pathlib import Path

from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.resolving.tasks import task_file


def refuse_exposed(experiment: Experiment, reading: Reading) -> None:
    """Refuse folders of agents and workspaces that hold a grader's folder or the hidden answers."""
    hidden = _hidden(experiment, reading)
    for variant in experiment.variants:
        if variant.agent.dir is not None:
            _check(f"agent.dir of variant '{variant.id}'", variant.agent.dir.path, hidden, reading)
    for task in experiment.tasks:
        if task.workspace is not None:
            _check(f"the workspace of task '{task.id}'", task.workspace.path, hidden, reading)


def _hidden(experiment: Experiment, reading: Reading) -> Mapping[Path, str]:
    graders = {task.grader.dir.path for task in experiment.tasks if task.grader.dir is not None}
    hidden = {Path(path): "the grader's folder" for path in graders}
    if any(task.has_target or task.solution is not None for task in experiment.tasks):
        hidden[task_file(reading)[0].resolve()] = "the file with the tasks' hidden answers"
    return hidden


def _check(what: str, folder: str, hidden: Mapping[Path, str], reading: Reading) -> None:
    for path, name in hidden.items():
        if path.is_relative_to(folder):
            problem = f"{what} holds {name} ('{path}'), so the agent could read it; move one of them"
            reading.problems.add(reading.document.where(()), problem)
