"""Preflight of containers: engine, image, limits, and one real attempt from its agent to its grader.

The attempt proves in one go that the image has a shell and the tools that the wrapper needs, that its users
exist and can be become, and that folders reach the engine's host: the grader's command is a file that is
made after the start, and without it no grader runs.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from labrunner.errors import AttemptFailed
from labrunner.experiment.model import Network, SandboxPlan
from labrunner.sandbox.docker.answers import EngineFacts, ImageFacts
from labrunner.sandbox.docker.stage import can_look_into
from labrunner.sandbox.door import (
    SEARCH_PATH,
    AgentRun,
    AttemptFolders,
    Check,
    Demands,
    Phase,
    PhaseEnd,
    PhaseName,
    SandboxMaker,
    SandboxSpec,
)
from labrunner.sandbox.paths import AGENTLAB, is_of_attempt

PROBE_S: Final = 20.0
LATE: Final = "late"
LEAST_ROOM: Final = 2e9
"""With less than this, an engine soon can't make containers."""
OFF: Final = Network(mode="none")


def unreachable(failure: AttemptFailed) -> Check:
    """Say that there is no engine, and what to do."""
    told = f"{failure}; start Docker, let this user reach its socket, or set DOCKER_HOST"
    return Check(name="docker", passed=False, message=told)


def check_engine(facts: EngineFacts) -> Check:
    """Say which engine answers."""
    size = f"{facts.cpus} cpus, {facts.memory_bytes / 2**30:.1f} GiB"
    return Check(name="docker", passed=True, message=f"engine {facts.version} answers: {size}")


def check_room(facts: EngineFacts) -> Check:
    """Say what the engine holds, and how much room it has where this host can tell."""
    told = f"{facts.images} images, {facts.containers} containers"
    try:
        free = shutil.disk_usage(facts.root_dir).free
    except OSError:
        return Check(name="docker disk", passed=True, message=told)
    return Check(
        name="docker disk",
        passed=free >= LEAST_ROOM,
        severity="warning",
        message=f"{told}; {free / 1e9:.1f} GB free in {facts.root_dir}",
    )


def check_image(plan: SandboxPlan, image: ImageFacts) -> Check:
    """Say what an image's name means now."""
    name = plan.image if plan.build is None else f"built from {plan.build.path}"
    return Check(name="image", passed=True, message=f"{name} is {image.repo_digest or image.id}")


def check_volumes(plan: SandboxPlan, image: ImageFacts, engine: EngineFacts) -> Iterator[Check]:
    """Refuse volumes that a limit of the disk can't be kept for: only who may look there can count them."""
    unseen = [path for path in image.volumes if path not in plan.tmpfs]
    if not unseen or can_look_into(Path(engine.root_dir)):
        return
    is_asked = "disk_mb" in plan.asked and plan.limits != "best_effort"
    yield Check(
        name="limits",
        passed=False,
        severity="error" if is_asked else "warning",
        message=f"this user can't see what trials write to the image's volumes ({', '.join(unseen)}), "
        "so disk_mb does not hold there: give them a size with sandbox.tmpfs, run as root, "
        "or accept it with sandbox.limits: best_effort",
    )


def check_deferred(plan: SandboxPlan) -> Check:
    """Say that an image comes later, and what is not known until then."""
    told = f"{plan.image} is pulled with its first trial (sandbox.pull: lazy): not tried yet"
    return Check(name="image", passed=True, message=told)


def check_demands(plan: SandboxPlan, demands: Demands) -> Iterator[Check]:
    """Refuse what a container can't keep."""
    if any(network.mode == "allow" for network in demands.networks):
        told = "lists of allowed hosts can't be kept yet: write none or full"
        yield Check(name="network", passed=False, message=told)
    if demands.fresh_grader and plan.workdir is not None and not is_of_attempt(plan.workdir):
        told = f"what an agent leaves in {plan.workdir} of its image is not there in a fresh container"
        yield Check(name="grader.where", passed=False, message=f"{told}: write same, or leave out workdir")
    for path in demands.collect:
        if ".." in Path(path).parts:
            yield Check(name="collect", passed=False, message=f"{path}: write it without '..'")


async def try_container(maker: SandboxMaker, plan: SandboxPlan, demands: Demands) -> Check:
    """Carry out one small attempt and look at what it left."""
    name = f"container of {plan.image or 'the built image'}"
    try:
        with tempfile.TemporaryDirectory(prefix=".lab-probe-", dir=_place(demands)) as place:
            problem = await _attempt(maker, plan, demands, AttemptFolders(root=Path(place) / "attempt"))
    except (AttemptFailed, OSError) as error:
        problem = str(error)
    if problem is not None:
        return Check(name=name, passed=False, message=problem)
    return Check(name=name, passed=True, message="an agent and a grader ran in it; its folders reach us")


def _place(demands: Demands) -> Path | None:
    """The nearest folder that is there to where attempts will lie."""
    if demands.place is None:
        return None
    folders = (demands.place, *demands.place.parents)
    return next((folder for folder in folders if folder.is_dir()), None)


async def _attempt(
    maker: SandboxMaker, plan: SandboxPlan, demands: Demands, folders: AttemptFolders
) -> str | None:
    for folder in folders.all():
        folder.mkdir(parents=True)
    spec = SandboxSpec(folders=folders, plan=plan, agent_dir=None, demands=demands)
    _, agent_network, grader_network = demands.networks or (OFF, OFF, OFF)
    agent = _phase("agent", f"echo here > {AGENTLAB}/workspace/here", demands.agent_user, agent_network)
    seen = f"cat {AGENTLAB}/grader/{LATE} > {AGENTLAB}/out/benchmark_score.json"
    grader = _phase("grader", seen, demands.grader_user, grader_network)
    async with maker.open(spec) as sandbox:
        run = await sandbox.run_agent(None, agent)
        (folders.grader / LATE).write_text("late")
        end = await sandbox.run_grader(grader)
    return _judge(folders, run, end)


def _phase(name: PhaseName, script: str, user: str | None, network: Network) -> Phase:
    return Phase(
        name=name,
        argv=("/bin/sh", "-c", script),
        env={"PATH": SEARCH_PATH},
        timeout_s=PROBE_S,
        network=network,
        user=user,
    )


def _judge(folders: AttemptFolders, run: AgentRun, end: PhaseEnd) -> str | None:
    if run.agent is None or run.agent.exit_status != 0:
        said = _read(folders.logs / "agent.stderr")
        return f"a test command ended with {run.agent and run.agent.exit_status} instead of 0: {said}"
    if not (folders.workspace / "here").is_file():
        return f"what a container writes does not reach {folders.root}: the engine's host has other folders"
    if end.timed_out or not (folders.out / "benchmark_score.json").is_file():
        told = f"a file made in {folders.root} after a container's start does not appear in it"
        return f"{told}: the engine's host has other folders, or copies of them"
    if end.exit_status != 0:
        said = _read(folders.logs / "grader.stderr")
        return f"a test grader ended with {end.exit_status} instead of 0: {said}"
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()[:500]
    except OSError as error:
        return f"(its log can't be read: {error})"
