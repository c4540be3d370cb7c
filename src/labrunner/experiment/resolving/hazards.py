"""What is refused though each part of it is fine by itself.

Hidden files where an agent can read them are a mistake that no sandbox can mend. And where setup and agent
may both change the system that a grader trusts, the author has to decide what follows. What is said of a
cluster's nodes is lost on an executor that is this machine.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import FieldPath
from labrunner.experiment.authoring.problems import listed
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import find_option, flag
from labrunner.experiment.resolved import Experiment, TaskSpec, Variant
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.resolving.overlay import fields_set
from labrunner.experiment.resolving.tasks import task_file
from labrunner.experiment.run_policy import LOCAL, ExecutorPlan
from labrunner.experiment.sandbox_kinds import has_images

FIELD = "on_system_change"
REMEDY = (
    "setup may change the container's system, and a fresh container, in which a trial is judged whose agent "
    f"changed it too, has nothing of that; write {FIELD}: afresh (graders need nothing that setup does "
    "outside the workspace), flag (judged in place and flagged: the agent may have replaced what the grader "
    "uses) or refuse (such a trial fails ungraded); or write sandbox.read_only: true, or bring what setup "
    "installs in the image"
)

OF_NODES: Final = ("address", "per_node", "labels")
"""Fields of `executor` that speak of a cluster's nodes."""


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
    solutions = {task.solution.dir for task in experiment.tasks if task.solution is not None}
    hidden |= {Path(path): "the folder of a task's solution" for path in solutions if path is not None}
    if any(task.has_target or task.solution is not None for task in experiment.tasks):
        hidden[task_file(reading)[0].resolve()] = "the file with the tasks' hidden answers"
    return hidden


def _check(what: str, folder: str, hidden: Mapping[Path, str], reading: Reading) -> None:
    for path, name in hidden.items():
        if path.is_relative_to(folder):
            problem = f"{what} holds {name} ('{path}'), so the agent could read it; move one of them"
            reading.problems.add(reading.document.where(()), problem)


def refuse_unsolved(experiment: Experiment, reading: Reading) -> None:
    """Refuse the oracle where a task has no solution that it could carry out."""
    oracle = next((each for each in experiment.variants if each.agent.runs_solution), None)
    unsolved = [task.id for task in experiment.tasks if task.solution is None]
    if oracle is not None and unsolved:
        told = f"variant '{oracle.id}' carries out each task's solution, and {listed(unsolved)}"
        has = "has" if len(unsolved) == 1 else "have"
        choose = f"choose others by {flag('sample_id')} or tasks.include"
        reading.problems.add(
            reading.document.where(("tasks",)), f"{told} {has} none; write `solution`, or {choose}"
        )


def refuse_unsaid(experiment: Experiment, reading: Reading) -> None:
    """Refuse a setup in a container where nobody says what follows from a changed system."""
    if FIELD in reading.file.model_fields_set or experiment.trust == "strict":
        return
    for variant in experiment.variants:
        if variant.sandbox.read_only or not has_images(variant.sandbox.kind):
            continue
        task = next((task for task in experiment.tasks if _has_setup(task, variant)), None)
        if task is not None:
            told = f"is not written down, and task '{task.id}' has a setup command: {REMEDY}"
            reading.problems.add(reading.document.where((FIELD,)), told)
            return


def _has_setup(task: TaskSpec, variant: Variant) -> bool:
    """Whether a setup comes before a grader that is not in a fresh container anyway."""
    setup = task.setup if task.setup is not None else variant.setup
    return bool(setup.command) and task.grader.where == "same"


def refuse_unheeded(reading: Reading) -> None:
    """Refuse what a file says of nodes where it has this machine carry trials out."""
    plain, part = ExecutorPlan(), reading.file.executor
    laid = {path[:2] for _, path, _ in fields_set(reading.overrides)}
    if part.kind != LOCAL or laid & {("executor",), ("executor", "kind")}:
        return  # nobody has to mend the file to run it here once
    for path in (("executor", name) for name in OF_NODES):
        if path not in laid and getattr(part, path[1]) != getattr(plain, path[1]):
            told = (
                f"speaks of a cluster's nodes, and with kind: {LOCAL} trials are carried out on this machine"
            )
            reading.problems.add(reading.document.where(path), f"{told}; write kind: ray, or leave it out")


def refuse_unheeded_options(asked: Overrides, kind: str) -> None:
    """The same of options, where trials are carried out by an executor of this kind. Raises InputError."""
    address = find_option("executor_address")
    for option, path, value in fields_set(asked):
        if kind != LOCAL or not _speaks_of_nodes(path, value):
            continue
        if option == address.label and asked.executor_address == os.environ.get(address.variable):
            continue  # set once for all that is done in this place, clusters or not
        told = f"speaks of a cluster's nodes, and trials are carried out on this machine (executor {LOCAL})"
        raise InputError(option, f"{told}; add {find_option('executor').spell('ray')}, or leave it out")


def _speaks_of_nodes(path: FieldPath, value: Any) -> bool:  # noqa: ANN401 - not checked yet
    if path[:1] != ("executor",):
        return False
    names = value if len(path) == 1 and isinstance(value, dict) else path[1:2]
    return any(name in OF_NODES for name in names)
