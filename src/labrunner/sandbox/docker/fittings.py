"""What is put in place for one attempt's containers, and what is kept of how they were made."""

import os
from importlib import resources

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine.replies import EngineFacts, ImageFacts
from labrunner.sandbox.docker.watching.users import login
from labrunner.sandbox.docker.wrapper.configuration import Limits, enforced
from labrunner.sandbox.docker.wrapper.script import PhaseBasics
from labrunner.sandbox.door import SandboxSpec
from labrunner.sandbox.paths import AGENTLAB
from labrunner.sandbox.processes.enforcement import MIB


def furnish(spec: SandboxSpec) -> None:
    """Put in place what only containers need, with rights that any user inside can use."""
    folders = spec.folders
    with SandboxFailed.during("prepare", f"preparing {folders.root} for a container"):
        # What root left in a container is root's on this machine, too, also programs with the setuid bit:
        # nobody else may come by them. Whoever runs inside does not pass here.
        folders.root.parent.chmod(0o700)
        folders.root.chmod(0o755)
        folders.inputs.chmod(0o755)
        folders.logs.chmod(0o700)
        folders.ctl.mkdir(mode=0o755, exist_ok=True)
        if spec.agent_dir is not None:
            folders.agent_mount.mkdir(exist_ok=True)
        script = resources.files("labrunner.sandbox.guest").joinpath("wrapper.sh").read_bytes()
        (folders.inputs / ".wrapper.sh").write_bytes(script)
        for path in folders.inputs.iterdir():
            path.chmod(0o644)


def make_basics(spec: SandboxSpec, image: ImageFacts, engine: EngineFacts, *, is_shared: bool) -> PhaseBasics:
    """What all phases of an attempt have in common."""
    asked = (spec.demands.agent_user or image.user, spec.demands.grader_user or image.user)
    users = tuple(user for user in dict.fromkeys(asked) if login(user) not in {"0", "root"})
    ours = "0:0" if engine.is_rootless else f"{os.geteuid()}:{os.getegid()}"
    return PhaseBasics(
        image_env=image.env,
        workdir=spec.plan.workdir or f"{AGENTLAB}/workspace",
        owner=ours if users or ours != "0:0" else None,
        users=users,
        is_shared=is_shared,
        restart=is_shared or spec.demands.restart,
        most_left=spec.plan.memory_mb * MIB // 8,
    )


def tell_limits(spec: SandboxSpec, image: ImageFacts, engine: EngineFacts) -> Limits:
    """Limits as enforced, the image by its digest, and the network of each phase, as they are kept."""
    return {**enforced(spec.plan, engine), **_image_facts(image), **_network_facts(spec)}


def _network_facts(spec: SandboxSpec) -> dict[str, str]:
    """The network of each phase, as it is kept."""
    phases = ("setup", "agent", "grader")
    return {
        f"network_{phase}": network.mode
        for phase, network in zip(phases, spec.demands.networks, strict=False)
    }


def _image_facts(image: ImageFacts) -> dict[str, str]:
    return {"image": image.id} | ({"image_ref": image.repo_digest} if image.repo_digest else {})
