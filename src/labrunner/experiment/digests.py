"""Digests of what is measured: a task, a variant, an experiment.

Covered is what a trial's result may depend on. Not covered: policy, names for people (description, tags,
groups, metadata), how images are fetched, where a model is reached, by which key and at what price, and where
files lie (folders count by their content). So moving an experiment's folder, or going on with other
thresholds, changes no digest. A task's solution counts for trials of the oracle alone.
"""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from labrunner.experiment.resolved import (
    Agent,
    AgentLimits,
    Experiment,
    Folder,
    Grader,
    ModelEntry,
    Network,
    Program,
    Resources,
    SandboxPlan,
    Setup,
    Solution,
    TaskSpec,
    Variant,
)
from labrunner.experiment.sandbox_kinds import has_images
from labrunner.records.encoding import canonical

_NOT_MEASURED: Final[Mapping[type, frozenset[str]]] = {
    TaskSpec: frozenset({"digest", "solution", "group", "tags", "metadata", "build_timeout_s"}),
    Variant: frozenset({"digest"}),
    SandboxPlan: frozenset({"pull", "prune_images", "build_timeout_s"}),
    Program: frozenset({"is_repeatable", "base_url", "reducer"}),
    ModelEntry: frozenset({"base_url", "key", "prices", "max_connections", "max_retries"}),
}
_WHERE_USED: Final[Mapping[type, tuple[str, ...]]] = {
    Grader: ("metric",),
    Agent: ("limits", "named", "exit_tells", "runs"),
    Network: ("models",),
    Setup: ("user",),
    TaskSpec: ("build", "agent", "collect"),
    Variant: ("models",),
}
"""Fields that are measured only where they say something, so that who does not use them keeps his digests."""
_CODE: Final[Mapping[type, frozenset[str]]] = {
    Agent: frozenset({"dir"}),
    Grader: frozenset({"dir"}),
    SandboxPlan: frozenset({"build"}),
    Solution: frozenset({"digest"}),
    TaskSpec: frozenset({"build"}),
    Program: frozenset({"file", "modules"}),
}
"""Fields that stand for somebody's code: a person can say of an edit there that nothing changed."""


_NOTHING: Final = (None, (), AgentLimits(), True)
_SHARED: Final = frozenset({Grader, Setup, Resources})
"""Parts that nearly all tasks of an experiment share: measured once, not once a task."""
_MOST_KEPT: Final = 64
_lately: Final[dict[tuple[int, bool], tuple[object, Any]]] = {}


def digest_task(task: TaskSpec) -> str:
    """Digest of a task, its grader included."""
    return canonical.digest(["task_v1", measured(task)])


def digest_problem(task: TaskSpec) -> str:
    """Digest of what a task asks of an agent, whoever judges the answer."""
    plain = measured(task)
    del plain["grader"]
    return canonical.digest(["problem_v1", plain])


def digest_variant(variant: Variant) -> str:
    """Digest of a variant with its agent, setup and sandbox, and its program where it has one."""
    plain = measured(variant)
    if variant.program is None:
        del plain["program"]
    return canonical.digest(["variant_v1", plain])


def digest_tried(variant: Variant, task: TaskSpec) -> str:
    """Digest of what is tried on a task: its variant's; of the oracle, with the task's solution."""
    if not variant.agent.runs_solution:
        return variant.digest
    return canonical.digest(["solved_v1", variant.digest, measured_solution(task)])


def measured_solution(task: TaskSpec, *, beside_code: bool = False) -> Any:  # noqa: ANN401 - plain JSON
    """What counts of a task's solution, where the oracle tries it."""
    if task.solution is None:
        return None
    plain = measured(task.solution, beside_code=beside_code)
    del plain["dir"]
    return plain


def digest_experiment(experiment: Experiment) -> str:
    """Digest of the question that a run answers."""
    solved = any(variant.agent.runs_solution for variant in experiment.variants)
    solutions = [measured_solution(task) for task in experiment.tasks] if solved else []
    return canonical.digest(
        [
            "experiment_v1",
            {
                "tasks": [task.digest for task in experiment.tasks],
                "variants": [variant.digest for variant in experiment.variants],
                **({"solutions": solutions} if solved else {}),
                "trust": experiment.trust,
                "on_system_change": measured_change(experiment),
                "collect": experiment.collect,
                "replications": experiment.replications,
                "order": experiment.order,
                "seed": experiment.seed,
                "grade_on_agent_failure": experiment.grade_on_agent_failure,
            },
        ]
    )


def measured_change(experiment: Experiment) -> str:
    """What follows from a changed system, as it is measured: where nobody runs images, `afresh` is `flag`."""
    is_imaged = any(has_images(variant.sandbox.kind) for variant in experiment.variants)
    if experiment.on_system_change == "afresh" and not is_imaged:
        return "flag"
    return experiment.on_system_change


def digests_beside_code(experiment: Experiment) -> dict[str, str]:
    """For the digest of each task and variant, one of everything that is measured but the code behind it."""
    is_python = experiment.variants[0].program is not None
    found = {
        task.digest: canonical.digest(
            # To a Python task metadata is part of a sample.
            ["task", measured(task, beside_code=True), task.metadata if is_python else {}]
        )
        for task in experiment.tasks
    }
    for variant in experiment.variants:
        plain = measured(variant, beside_code=True)
        found[variant.digest] = canonical.digest(["variant", plain])
        for task in experiment.tasks if variant.agent.runs_solution else ():
            solution = measured_solution(task, beside_code=True)
            found[digest_tried(variant, task)] = canonical.digest(["solved", plain, solution])
    return found


def measured(value: Any, *, beside_code: bool = False) -> Any:  # noqa: ANN401 - any part of an experiment
    """Reduce a part of an experiment to plain JSON of what is measured.

    Parts hold parts in fields and tuples only: lists and maps are the author's own plain JSON.
    """
    if value is None or isinstance(value, str | float | int):
        return value
    if isinstance(value, Folder):
        return value.digest
    if isinstance(value, tuple):
        return [measured(each, beside_code=beside_code) for each in value]
    if isinstance(value, dict):
        return {str(key): each for key, each in value.items()}
    kind = type(value)
    if kind not in _SHARED:
        return _measured_fields(value, beside_code=beside_code)
    kept = _lately.get((id(value), beside_code))
    if kept is None or kept[0] is not value:
        if len(_lately) >= _MOST_KEPT:
            _lately.clear()
        kept = _lately[id(value), beside_code] = (value, _measured_fields(value, beside_code=beside_code))
    return kept[1]


def _measured_fields(value: Any, *, beside_code: bool) -> Any:  # noqa: ANN401 - any part of an experiment
    names = _measured_names(type(value), beside_code=beside_code)  # type: ignore[arg-type] # mypy: a class is hashable
    if names is None:
        return value
    plain = {name: measured(getattr(value, name), beside_code=beside_code) for name in names}
    for name in _WHERE_USED.get(type(value), ()):
        if getattr(value, name) in _NOTHING:
            plain.pop(name, None)
    return plain


@cache
def _measured_names(kind: type, *, beside_code: bool) -> tuple[str, ...] | None:
    """Names of the measured fields of a part; None for plain values."""
    if not dataclasses.is_dataclass(kind):
        return None
    left_out = _NOT_MEASURED.get(kind, frozenset())
    if beside_code:
        left_out |= _CODE.get(kind, frozenset())
    return tuple(field.name for field in dataclasses.fields(kind) if field.name not in left_out)
