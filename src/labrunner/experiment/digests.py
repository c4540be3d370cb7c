"""Digests of what is measured: a task, a variant, an experiment.

Covered is what a trial's result may depend on. Not covered: policy, names for people (description, tags,
groups, metadata), reference solutions, how images are fetched, and where files lie (folders count by
their content). So moving an experiment's folder, or going on with other thresholds, changes no digest.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from labrunner.experiment.model import Experiment, Folder, Task, Variant
from labrunner.records import canonical

_NOT_MEASURED: Final = {
    "Task": frozenset({"digest", "solution", "group", "tags", "metadata"}),
    "Variant": frozenset({"digest"}),
    "SandboxPlan": frozenset({"pull", "prune_images"}),
}


def digest_task(task: Task) -> str:
    """Digest of a task, its grader included."""
    return canonical.digest(["task_v1", measured(task)])


def digest_variant(variant: Variant) -> str:
    """Digest of a variant with its agent, setup and sandbox."""
    return canonical.digest(["variant_v1", measured(variant)])


def digest_experiment(experiment: Experiment) -> str:
    """Digest of the question that a run answers."""
    return canonical.digest(
        [
            "experiment_v1",
            {
                "tasks": [task.digest for task in experiment.tasks],
                "variants": [variant.digest for variant in experiment.variants],
                "trust": experiment.trust,
                "on_system_change": experiment.on_system_change,
                "collect": experiment.collect,
                "replications": experiment.replications,
                "order": experiment.order,
                "seed": experiment.seed,
                "grade_on_agent_failure": experiment.grade_on_agent_failure,
            },
        ]
    )


def measured(value: Any) -> Any:  # noqa: ANN401 - any part of an experiment
    """Reduce a part of an experiment to plain JSON of what is measured."""
    match value:
        case Folder():
            return value.digest
        case Mapping():
            return {str(key): measured(each) for key, each in value.items()}
        case tuple() | list():
            return [measured(each) for each in value]
        case _:
            pass
    if not dataclasses.is_dataclass(value):
        return value
    left_out = _NOT_MEASURED.get(type(value).__name__, frozenset())
    names = (field.name for field in dataclasses.fields(value) if field.name not in left_out)
    return {name: measured(getattr(value, name)) for name in names}
