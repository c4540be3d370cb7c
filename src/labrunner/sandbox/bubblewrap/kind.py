"""Bubblewrap as a kind of sandbox."""

from typing import Final

from labrunner.experiment.resolved import SandboxPlan
from labrunner.experiment.sandbox_kinds import BUBBLEWRAP
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.sandbox.kind import SandboxKind


def _make(*, anew: bool) -> SandboxMaker:
    from labrunner.sandbox.bubblewrap.namespaced import BubblewrapMaker

    del anew  # nothing is ever remembered
    return BubblewrapMaker()


async def _examine() -> tuple[Check, ...]:
    """Launch one, with the limits that experiments have unless they say otherwise."""
    plan = SandboxPlan(
        kind=BUBBLEWRAP,
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
    return await _make(anew=False).preflight(plan)


KIND: Final = SandboxKind(make=_make, open_files=14, examine=_examine)
