"""Preflight of containers: what is told of engine, image, limits and probes."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from labrunner.errors import AttemptFailed
from labrunner.experiment.resolved import SandboxPlan
from labrunner.experiment.sandbox_kinds import DOCKER
from labrunner.files.layering.layernote import PATCH
from labrunner.records.barrier import FRESH, explain_barrier
from labrunner.sandbox.docker.attempt.stage import can_look_into
from labrunner.sandbox.docker.engine.replies import EngineFacts, ImageFacts
from labrunner.sandbox.docker.probing.probe import ProbeOutcome
from labrunner.sandbox.door import Check, Demands, ReachWay
from labrunner.sandbox.paths import can_be_carried, works_in_image
from labrunner.sandbox.ways import tell_way

LEAST_ROOM: Final = 2e9
"""With less than this, an engine soon can't make containers."""
SLOW_S: Final = 2.0
"""More than this for each trial is worth a word."""
KEEPS_NAMES: Final = {23: (23, 0, 11), 25: (25, 0, 5)}
"""Since when engines pass no names on from internal networks, where that came late; since 26 none does."""


def unreachable(failure: AttemptFailed) -> Check:
    """Say that there is no engine, and what to do."""
    told = f"{failure}; start Docker, let this user reach its socket, or set DOCKER_HOST"
    return Check(name=DOCKER, passed=False, message=told)


def check_engine(facts: EngineFacts) -> Check:
    """Say which engine answers."""
    size = f"{facts.cpus} cpus, {facts.memory_bytes / 2**30:.1f} GiB"
    return Check(name=DOCKER, passed=True, message=f"engine {facts.version} answers: {size}")


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


def check_barrier(demands: Demands, *, is_shared: bool) -> Check:
    """Say how barriers will be held, and what that proves."""
    word = "restarted" if is_shared or demands.restart else "separate_user"
    word = FRESH if demands.fresh_grader else word
    who = "the agent is root" if is_shared else "the agent is not root"
    told = f"{who}; {explain_barrier(word)}"
    if demands.renews_changed:
        told += f". Where the agent changed the system, {explain_barrier(FRESH)}"
    return Check(name="barrier", passed=True, message=told)


def check_deferred(plan: SandboxPlan) -> Check:
    """Say that an image comes later, and what is not known until then."""
    told = f"{plan.image} is pulled with its first trial (sandbox.pull: lazy): not tried yet"
    return Check(name="image", passed=True, message=told)


def check_demands(plan: SandboxPlan, demands: Demands) -> Iterator[Check]:
    """Refuse what a container can't keep."""
    is_stuck = works_in_image(plan.workdir) and not can_be_carried(plan.workdir)
    if demands.fresh_grader and is_stuck:
        told = f"{plan.workdir} is where the image's system lies, so work in it can't be carried elsewhere"
        yield Check(name="grader.where", passed=False, message=f"{told}: write same, or another workdir")
    if demands.leaves_work and PATCH not in demands.collect:
        told = "a pristine container has nothing of an agent's work but its patch"
        yield Check(name="grader.where", passed=False, message=f"{told}: write collect: [{PATCH}], or fresh")
    if demands.renews_changed and not plan.read_only and is_stuck:
        yield Check(
            name="on_system_change",
            passed=False,
            message=f"{plan.workdir} is where the image's system lies, so an agent that works in it can't be "
            "judged in a fresh container: write flag (judged in place and flagged: the agent may have "
            "replaced what the grader uses) or refuse (one that changed anything elsewhere fails ungraded), "
            "or another workdir",
        )
    fleeting = [path for path in plan.tmpfs if plan.workdir and Path(plan.workdir).is_relative_to(path)]
    if fleeting:
        told = f"{plan.workdir} lies in the tmpfs {fleeting[0]}, which is empty again when the grader comes"
        yield Check(name="workdir", passed=False, message=f"{told}: leave out one of the two")
    if PATCH in demands.collect and not can_be_carried(plan.workdir):
        told = "a patch is made of a git work tree of the image: name it with workdir, or write ./patch"
        yield Check(name="collect", passed=False, message=f"{told} for a file of that name")
    for path in demands.collect:
        if ".." in Path(path).parts:
            yield Check(name="collect", passed=False, message=f"{path}: write it without '..'")


def check_reach(demands: Demands, way: ReachWay, engine: EngineFacts) -> Iterator[Check]:
    """Say what a way to doors means that is not as good as another; refuse it where it would leak names."""
    if not demands.has_doors or way != "bridge":
        return
    yield tell_way(way)
    has_full = any(network.mode == "full" for network in demands.networks)
    if has_full and not _keeps_names(engine):
        yield Check(
            name="network",
            passed=False,
            message=f"some phases have network: full and others reach only models or hosts, but engine "
            f"{engine.version} would answer these, too, for every name in the world: use a newer engine "
            "(26), run lab as root, or give no phase network: full",
        )


def _keeps_names(engine: EngineFacts) -> bool:
    first = engine.release[:1]
    return first >= (26,) or (bool(first) and engine.release >= KEEPS_NAMES.get(first[0], (26,)))


def check_probe(plan: SandboxPlan, outcome: ProbeOutcome, *, is_remembered: bool) -> Iterator[Check]:
    """Say what came of a probe, and what it tells of every trial."""
    name = plan.image or "the built image"
    told = "an agent and a grader ran in it; its folders reach us"
    if is_remembered:
        told += " (tried within the last day)"
    yield Check(name=f"container of {name}", passed=outcome.problem is None, message=outcome.problem or told)
    if outcome.changes_s > SLOW_S:
        yield Check(
            name="system changes",
            passed=False,
            severity="warning",
            message=f"asking the engine what a container of {name} has changed took "
            f"{outcome.changes_s:.1f} s, and so it will for each trial: as root on the engine's host "
            "lab looks for itself, and on_system_change: ignore does without",
        )
