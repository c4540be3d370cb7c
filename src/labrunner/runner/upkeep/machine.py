"""What can be checked of a machine without an experiment: where runs would lie, and which sandboxes work."""

from pathlib import Path
from typing import Final

from labrunner.errors import AttemptFailed, InputError
from labrunner.experiment.resolved import SandboxKind, SandboxPlan
from labrunner.runner.upkeep.preflight import check_place
from labrunner.sandbox.door import Check
from labrunner.sandbox.registry import make

ROOM_GB: Final = 5.0
"""What experiments ask for unless they say otherwise."""


async def examine_machine(runs_dir: Path) -> tuple[Check, ...]:
    """Look at storage, and try each kind of sandbox; nothing here is an error, for nothing was asked for."""
    tried = [await _try_bubblewrap(), await _ask_docker()]
    checks = [*check_place(runs_dir, ROOM_GB), *(check for checks in tried for check in checks)]
    if not any(checks and checks[0].passed for checks in tried):
        told = "of the sandboxes only `process` works here, which isolates nothing"
        checks.append(Check(name="sandbox", passed=False, message=told))
    return tuple(
        Check(name=each.name, passed=each.passed, message=each.message, severity="warning") for each in checks
    )


async def _try_bubblewrap() -> tuple[Check, ...]:
    return await make("bubblewrap").preflight(_plan("bubblewrap"))


async def _ask_docker() -> tuple[Check, ...]:
    from labrunner.sandbox.docker.engine.client import Engine
    from labrunner.sandbox.docker.proving.container_check import check_engine, check_room, unreachable

    try:
        engine = Engine()
        try:
            facts = await engine.facts()
        finally:
            await engine.close()
    except AttemptFailed as failure:
        return (unreachable(failure),)
    except InputError as error:
        return (Check(name="docker", passed=False, message=str(error)),)
    return check_engine(facts), check_room(facts)


def _plan(kind: SandboxKind) -> SandboxPlan:
    return SandboxPlan(
        kind=kind,
        image=None,
        build=None,
        pull="preflight",
        prune_images=False,
        workdir=None,
        cpus=2.0,
        memory_mb=2048,
        pids=512,
        disk_mb=10240,
        read_only=False,
        tmpfs={},
        limits="best_effort",
        asked=(),
    )
