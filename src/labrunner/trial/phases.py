"""The commands and environments of an attempt's phases, made from the experiment and the guest's paths.

Pure. The agent's phase holds nothing of the grader's, and the grader's nothing of the agent's secrets:
each is built from scratch, so nothing of the host's environment is in either.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from labrunner.experiment.resolved import (
    Agent,
    Experiment,
    Network,
    Resources,
    SandboxPlan,
    Setup,
    TaskSpec,
    Variant,
)
from labrunner.experiment.substitution import expand, expand_all
from labrunner.files.layering.layernote import PATCH, PATCH_FILE
from labrunner.records.completion import AgentOutcome
from labrunner.sandbox.door import Demands, GuestPaths, Phase, SandboxSpec
from labrunner.sandbox.marks import Mark
from labrunner.sandbox.paths import SOLUTION
from labrunner.trial.assignment import AttemptScene

DO_NOTHING: Final = ("sh", "-c", ":")
"""Every sandbox has a shell, and not each has a `true`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnding:
    """What a grader is told about the agent's end."""

    status: str
    """The captured exit status as text; of an agent that we ended, the one that stands for that."""
    outcome: AgentOutcome


def sandbox_plan(scene: AttemptScene) -> SandboxPlan:
    """The variant's sandbox with the task's own image, working directory and limits."""
    return merged_plan(scene.task, scene.variant)


def merged_plan(task: TaskSpec, variant: Variant) -> SandboxPlan:
    """The same, for any task and variant."""
    plan, own = variant.sandbox, task.resources
    named = tuple(name for name in Resources.__dataclass_fields__ if getattr(own, name) is not None)
    if not (named or task.image or task.build or task.workdir or task.build_timeout_s):
        return plan
    return replace(
        plan,
        image=None if task.build else task.image or plan.image,
        build=None if task.image else task.build or plan.build,
        build_timeout_s=task.build_timeout_s or plan.build_timeout_s,
        workdir=task.workdir or plan.workdir,
        asked=tuple(sorted({*plan.asked, *named})),
        **{name: getattr(own, name) for name in named},
    )


def merged_agent(task: TaskSpec, variant: Variant) -> Agent:
    """The variant's agent with the user and the network that the task decides; its models stay."""
    agent, own = variant.agent, task.agent
    if own is None:
        return agent
    network = agent.network
    if own.network is not None:
        network = replace(own.network, models=agent.network.models)
    return replace(agent, user=own.user or agent.user, network=network)


def collected(experiment: Experiment, task: TaskSpec) -> tuple[str, ...]:
    """Paths that are copied out of a finished sandbox: the experiment's, then the task's own."""
    return tuple(dict.fromkeys([*experiment.collect, *task.collect]))


def sandbox_spec(scene: AttemptScene) -> SandboxSpec:
    """What a sandbox must know about the attempt that it is made for."""
    assignment = scene.assignment
    mark = Mark(
        run=scene.context.mark(),
        trial_id=assignment.trial_id,
        attempt=assignment.attempt,
        token=assignment.token,
    )
    return SandboxSpec(
        folders=scene.folders,
        plan=sandbox_plan(scene),
        agent_dir=scene.agent_dir,
        agent_also_at=SOLUTION if scene.variant.agent.runs_solution else None,
        mark=mark,
        demands=demands(scene.context.experiment, scene.task, scene.variant),
    )


def demands(experiment: Experiment, task: TaskSpec, variant: Variant) -> Demands:
    """What the phases of a trial ask of its sandbox."""
    setup = task.setup if task.setup is not None else variant.setup
    agent = merged_agent(task, variant)
    is_fresh, is_strict = task.grader.where != "same", _is_strict(experiment)
    return Demands(
        agent_user=agent.user,
        grader_user=task.grader.user,
        networks=(setup.network, agent.network, task.grader.network),
        restart=is_strict,
        any_user=not agent.command and agent.runs is None,
        fresh_grader=is_fresh,
        leaves_work=task.grader.where == "pristine",
        collect=collected(experiment, task),
        system_changes=not is_fresh and (experiment.on_system_change != "ignore" or is_strict),
        refuses_changes=not is_fresh and must_not_change_system(experiment),
        renews_changed=not is_fresh and experiment.on_system_change == "afresh" and not is_strict,
        keeps_work=experiment.policy.keep.workspace != "never",
    )


def must_not_change_system(experiment: Experiment) -> bool:
    """Whether an agent that changed the system under its grader is not to be graded."""
    return experiment.on_system_change == "refuse" or _is_strict(experiment)


def _is_strict(experiment: Experiment) -> bool:
    return experiment.trust == "strict"


def setup_phase(scene: AttemptScene, guest: GuestPaths) -> Phase | None:
    """The setup command, the task's own before the variant's; None when there is none."""
    setup = _setup(scene)
    if not setup.command:
        return None
    env = _contract(scene, guest, setup.timeout_s) | {"PATH": guest.search_path}
    return Phase(
        name="setup",
        argv=_expanded(scene, guest, setup.command),
        env=env | _expanded_values(scene, guest, scene.task.env),
        timeout_s=setup.timeout_s,
        network=setup.network,
        user=setup.user,
    )


def agent_phase(scene: AttemptScene, guest: GuestPaths) -> Phase:
    """The agent's command with what it may know."""
    agent = merged_agent(scene.task, scene.variant)
    env = _contract(scene, guest, agent_timeout_s(scene))
    env |= {"AGENTLAB_AGENT_DIR": guest.agent, "PATH": f"{guest.agent}/bin:{guest.search_path}"}
    env |= _expanded_values(scene, guest, scene.task.env)
    env |= _expanded_values(scene, guest, agent.env)
    if agent.runs_solution and scene.task.solution is not None:
        env |= _expanded_values(scene, guest, scene.task.solution.env)
    env |= {name: scene.context.secrets[name] for name in agent.secrets}
    prompt = scene.folders.inputs / "prompt.txt" if agent.stdin == "prompt" else None
    return Phase(
        name="agent",
        argv=_agent_argv(scene, guest),
        env=env,
        timeout_s=agent_timeout_s(scene),
        network=agent.network,
        stdin=prompt,
        user=agent.user,
    )


def _agent_argv(scene: AttemptScene, guest: GuestPaths) -> tuple[str, ...]:
    """What the agent's phase starts: its command, or what stands in its place."""
    agent, solution = scene.variant.agent, scene.task.solution
    match agent.runs:
        case "nothing":
            return DO_NOTHING
        case "solution":
            assert solution is not None, "an oracle without a solution is refused when it is resolved"
            return _expanded(scene, guest, solution.command)
        case None:
            return _expanded(scene, guest, agent.command)
        case _:
            assert_never(agent.runs)


def grader_phase(
    scene: AttemptScene, guest: GuestPaths, ending: AgentEnding, *, tries_left: int = 0
) -> Phase:
    """The grader's command with what it needs to judge."""
    grader = scene.task.grader
    env = _contract(scene, guest, grader.timeout_s)
    env |= {
        "AGENTLAB_BENCHMARK_PREDICTION_PATH": f"{guest.out}/benchmark_prediction.json",
        "AGENTLAB_BENCHMARK_SCORE_PATH": f"{guest.out}/benchmark_score.json",
        "AGENTLAB_AGENT_EXIT_STATUS": ending.status,
        "AGENTLAB_AGENT_OUTCOME": ending.outcome,
        "AGENTLAB_GRADER_DIR": guest.grader,
        "AGENTLAB_GRADER_WHERE": grader.where,
        "AGENTLAB_TARGET_PATH": f"{guest.grader}/target.json",
        "PATH": f"{guest.grader}/bin:{guest.search_path}",
    }
    if PATCH in collected(scene.context.experiment, scene.task):
        env["AGENTLAB_PATCH_PATH"] = f"{guest.inputs.removesuffix('/in')}/{PATCH_FILE}"
    env |= _expanded_values(scene, guest, scene.task.env)
    env |= _expanded_values(scene, guest, grader.env)
    env |= {name: scene.context.secrets[name] for name in grader.secrets}
    return Phase(
        name="grader",
        argv=_expanded(scene, guest, grader.command),
        env=env,
        timeout_s=grader.timeout_s,
        network=grader.network,
        user=grader.user,
        may_repeat=tries_left > 0,
    )


def agent_timeout_s(scene: AttemptScene) -> float:
    """The task's own time limit, else the agent's."""
    return scene.task.timeout_s if scene.task.timeout_s is not None else scene.variant.agent.timeout_s


def policy_note(scene: AttemptScene, limits: Mapping[str, float | int | str | bool | None]) -> object:
    """Content of `policy.json`: what the agent is held to, as enforced. Says nothing about the grader."""
    return {
        "timeout_ms": _ms(agent_timeout_s(scene)),
        "network": {
            "setup": _network_note(_setup(scene).network),
            "agent": _network_note(merged_agent(scene.task, scene.variant).network),
        },
        "limits": dict(limits),
    }


def _setup(scene: AttemptScene) -> Setup:
    return scene.task.setup if scene.task.setup is not None else scene.variant.setup


def _network_note(network: Network) -> object:
    named = {"hosts": network.hosts, "models": network.models}
    return {"mode": network.mode, **{name: each for name, each in named.items() if each}}


def _contract(scene: AttemptScene, guest: GuestPaths, timeout_s: float) -> dict[str, str]:
    ids = scene.ids
    env = {
        "AGENTLAB_RUN_ID": ids.run_id,
        "AGENTLAB_TRIAL_ID": ids.trial_id,
        "AGENTLAB_VARIANT_ID": ids.variant_id,
        "AGENTLAB_TASK_ID": ids.task_id,
        "AGENTLAB_REPL_IDX": str(ids.repl_idx),
        "AGENTLAB_ATTEMPT": str(scene.assignment.attempt),
        "AGENTLAB_WORKSPACE": _names(scene, guest)["workspace"],
        "AGENTLAB_TASK_PATH": f"{guest.inputs}/task.json",
        "AGENTLAB_BINDINGS_PATH": f"{guest.inputs}/bindings.json",
        "AGENTLAB_POLICY_PATH": f"{guest.inputs}/policy.json",
        "AGENTLAB_RESULT_PATH": f"{guest.out}/result.json",
        "AGENTLAB_EVENTS_PATH": f"{guest.state}/events.jsonl",
        "AGENTLAB_TIMEOUT_MS": str(_ms(timeout_s)),
        "LANG": "C.UTF-8",
    }
    if scene.task.prompt is not None:
        env["AGENTLAB_PROMPT_PATH"] = f"{guest.inputs}/prompt.txt"
    image = sandbox_plan(scene).image
    return env | {"AGENTLAB_TASK_IMAGE": image} if image else env


def _names(scene: AttemptScene, guest: GuestPaths) -> dict[str, str]:
    return {
        "agent_dir": guest.agent,
        "grader_dir": guest.grader,
        "workspace": sandbox_plan(scene).workdir or guest.workspace,
        "task_path": f"{guest.inputs}/task.json",
        "prompt_path": f"{guest.inputs}/prompt.txt",
        "python": guest.python,
    }


def _expanded(scene: AttemptScene, guest: GuestPaths, command: tuple[str, ...]) -> tuple[str, ...]:
    return expand_all(command, _names(scene, guest))


def _expanded_values(scene: AttemptScene, guest: GuestPaths, env: Mapping[str, str]) -> dict[str, str]:
    names = _names(scene, guest)
    return {name: expand(value, names) for name, value in env.items()}


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
