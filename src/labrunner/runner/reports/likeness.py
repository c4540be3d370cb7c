"""Whether the tasks of two runs ask the same, and in which fields they differ.

Rule: a task pairs with itself when it asks the same of agents, whoever judges the answers: so a run pairs
with its regrading. What differs is always named; what asks something else pairs only when somebody says so.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from labrunner.experiment.digests import digest_problem
from labrunner.experiment.resolved import Experiment

PairBy: TypeAlias = Literal["content", "id"]
_JUDGE: Final = "grader."


def identify_tasks(experiment: Experiment, pair_by: PairBy) -> dict[str, str]:
    """What makes each task the one that it is: what it asks, or only its name."""
    if pair_by == "id":
        return {}
    return {task.id: digest_problem(task) for task in experiment.tasks}


def tell_differences(labels: Sequence[str], experiments: Sequence[Experiment], pair_by: PairBy) -> list[str]:
    """In which fields the tasks of the runs differ from those of the first, in sentences."""
    # Here, because they load what checks experiment files, and every look at a run would wait for that.
    from labrunner.experiment.authoring.problems import listed
    from labrunner.experiment.revising.changes import group_by_change

    told = []
    first = {task.id: task for task in experiments[0].tasks}
    for label, experiment in zip(labels[1:], experiments[1:], strict=True):
        groups = group_by_change((first[task.id], task) for task in experiment.tasks if task.id in first)
        told += [
            f"{labels[0]} and {label}: {', '.join(fields)} not the same for tasks {listed(names)}; "
            f"{_describe_consequence(fields, pair_by)}"
            for fields, names in groups.items()
        ]
    return told


def _describe_consequence(fields: Sequence[str], pair_by: PairBy) -> str:
    if all(field == "grader" or field.startswith(_JUDGE) for field in fields):
        return "they ask the same and are paired: part of a difference may be the grader's"
    if pair_by == "id":
        return "paired by --pair-by id: part of a difference may be the tasks'"
    return "they are not paired; to pair them all the same: --pair-by id"
