"""Commands and variables that are too long to be handed to a sandbox: found before anything is spent.

Only what is long at all is looked at closely: phases are made for it as for a trial, its sandbox is asked.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from labrunner.experiment.resolved import Setup, TaskSpec, Variant
from labrunner.experiment.schedule import Slot
from labrunner.records.encoding.ids import make_trial_id
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.trial import phases
from labrunner.trial.assignment import Assignment, TrialContext, set_scene
from labrunner.trial.phases import AgentEnding

LONG: Final = 16 * 1024
"""Fewer characters than this fit into any sandbox."""
ENDED: Final = AgentEnding(status="0", outcome="exited")


def check_words(context: TrialContext, find_maker: Callable[[Variant], SandboxMaker]) -> Iterator[Check]:
    """Name every trial's commands that its sandbox could not be told."""
    experiment = context.experiment
    for task_idx, task in enumerate(experiment.tasks):
        for variant_idx, variant in enumerate(experiment.variants):
            parts = _measure(task, variant, context.secrets)
            if sum(parts.values()) < LONG:
                continue
            slot = Slot(schedule_idx=0, variant_idx=variant_idx, task_idx=task_idx, repl_idx=0)
            problem = _find_problem(context, slot, find_maker(variant))
            if problem is not None:
                longest = max(parts, key=lambda name: parts[name])
                told = f"task {task.id}, variant {variant.id}: {problem} (the longest is {longest})"
                yield Check(name="commands", passed=False, message=told)


def _find_problem(context: TrialContext, slot: Slot, maker: SandboxMaker) -> str | None:
    task, variant = context.experiment.tasks[slot.task_idx], context.experiment.variants[slot.variant_idx]
    trial_id = make_trial_id(variant.id, task.id, slot.repl_idx)
    scene = set_scene(context, Assignment(token="", slot=slot, trial_id=trial_id, attempt=1))
    guest = maker.guest_paths(scene.folders, scene.agent_dir)
    return maker.find_excess(
        phases.sandbox_plan(scene),
        phases.setup_phase(scene, guest),
        phases.agent_phase(scene, guest),
        phases.grader_phase(scene, guest, ENDED),
    )


def _measure(task: TaskSpec, variant: Variant, secrets: Mapping[str, str]) -> dict[str, int]:
    """How long each part of a trial's commands is. Secrets that are not given are told of elsewhere."""
    setup: Setup = task.setup if task.setup is not None else variant.setup
    agent, grader = variant.agent, task.grader
    if any(name not in secrets for name in (*agent.secrets, *grader.secrets)):
        return {}
    return {
        **_measure_command(task, variant),
        "agent.env": _pairs(agent.env),
        "agent.secrets": sum(len(secrets[name]) for name in agent.secrets),
        "setup.command": sum(map(len, setup.command)),
        "the task's env": _pairs(task.env),
        "grader.command": sum(map(len, grader.command)),
        "grader.env": _pairs(grader.env),
        "grader.secrets": sum(len(secrets[name]) for name in grader.secrets),
    }


def _measure_command(task: TaskSpec, variant: Variant) -> dict[str, int]:
    if variant.agent.runs_solution and task.solution is not None:
        return {"solution": sum(map(len, task.solution.command)) + _pairs(task.solution.env)}
    return {"agent.command": sum(map(len, variant.agent.command))}


def _pairs(env: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in env.items())
