"""What an attempt reaches outside its sandbox: its phases are given doors, which the run's gateway serves.

Rules: an attempt has a token of its own, which says whose call it is. Doors are closed at the barrier, before
anything of the grader arrives. A cap that is reached ends the agent at once.
"""

import asyncio
from dataclasses import dataclass, field, replace
from typing import assert_never

import msgspec

from labrunner.errors import SandboxFailed
from labrunner.gateway.process.control import Admit, Halting
from labrunner.gateway.process.introduction import tell_caps
from labrunner.gateway.process.owner import GatewayOwner
from labrunner.gateway.process.ports import ANY_PORTS, OWN_PORTS
from labrunner.gateway.recording.opencalls import OPEN
from labrunner.gateway.recording.opendoors import has_open_doors
from labrunner.gateway.variables import name_models, name_proxy
from labrunner.sandbox.door import HasDoors, Phase, Reach, Sandbox
from labrunner.trial.assignment import AttemptScene
from labrunner.trial.door_tokens import make_door_token
from labrunner.trial.tapes import find_tapes


@dataclass(slots=True, kw_only=True)
class Reaching:
    """One attempt's doors, in one sandbox."""

    scene: AttemptScene
    owner: GatewayOwner
    reach: Reach
    ports: tuple[int, int]
    halt: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a cap was reached."""
    visits: set[str] = field(default_factory=set)
    """Phases that are served."""
    is_adopted: bool = False
    """A runner before us may have let its phases in."""
    inherited: set[str] = field(default_factory=set)
    """Phases that may still be served for that one."""

    def furnish(self, phase: Phase) -> Phase:
        """A phase with its doors, if it has any, and with the variables that tell of them."""
        if not phase.network.has_doors:
            return phase
        doors = PhaseDoors(reaching=self, admit=self._make_admit(phase))
        if self.is_adopted:
            self.inherited.add(doors.admit.visit)
        halt = self.halt if phase.network.models else None
        return replace(phase, env={**self._name(phase), **phase.env}, doors=doors, halt=halt)

    async def close(self) -> None:
        """Close all doors; what was said there is on disk on return. Raises StoreError, SandboxFailed."""
        for visit in list(self.visits):
            await self.dismiss(visit)
        inherited, self.inherited = self.inherited, set()
        root = self.scene.folders.root
        if (root / OPEN).exists() or has_open_doors(root):  # else nobody has anything left to write
            for visit in inherited:
                await self.owner.dismiss_inherited(visit)

    async def dismiss(self, visit: str) -> None:
        """Close the doors of one phase. Raises StoreError."""
        self.visits.discard(visit)
        self.inherited.discard(visit)
        await self.owner.dismiss(visit)

    def _name(self, phase: Phase) -> dict[str, str]:
        entries = {entry.name: entry for entry in self.scene.variant.models}
        models = [entries[name] for name in phase.network.models]
        token, host = self._make_token(phase), self.reach.host
        env = name_models(models, f"http://{host}:{self.ports[0]}", token)
        if phase.network.hosts:
            is_known = self.reach.way == "planted"  # who comes to a listener of its own
            env |= name_proxy(host, self.ports[1], None if is_known else token)
        return env

    def _make_token(self, phase: Phase) -> str:
        return make_door_token(self.scene.assignment.token, phase.name)

    def _make_admit(self, phase: Phase) -> Admit:
        scene, policy = self.scene, self.scene.context.experiment.policy
        return Admit(
            visit=f"{scene.assignment.token}.{phase.name}",
            ids=scene.ids,
            attempt=scene.assignment.attempt,
            folder=str(scene.folders.root),
            token=self._make_token(phase),
            phase=phase.name,
            models=phase.network.models,
            hosts=phase.network.hosts,
            caps=tell_caps(scene.variant.agent.limits),
            host=None if self.reach.way == "planted" else self.reach.host,
            replay=policy.replay_mode if policy.replay is not None else None,
            tapes=tuple(map(str, find_tapes(scene))) if phase.network.models else (),
        )

    def heed(self, halting: Halting) -> None:
        """End the agent: what it asks for is not to be had any more."""
        del halting  # the call's row says why
        self.halt.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDoors:
    """The doors of one phase, as its sandbox opens them."""

    reaching: Reaching
    admit: Admit

    async def open(self, pid: int | None) -> None:
        """Have the gateway serve the phase where it is, and no phase before it."""
        for before in self.reaching.visits - {self.admit.visit}:
            await self.reaching.dismiss(before)
        self.reaching.visits.add(self.admit.visit)
        placed = msgspec.structs.replace(self.admit, pid=pid)
        await self.reaching.owner.admit(placed, self.reaching.heed)


async def prepare_reaching(
    scene: AttemptScene, owner: GatewayOwner, sandbox: Sandbox, *, is_adopted: bool
) -> Reaching:
    """Find out how an attempt's doors are reached; none is open yet. Raises SandboxFailed."""
    if not isinstance(sandbox, HasDoors):
        kind = scene.variant.sandbox.kind
        raise SandboxFailed("network", f"sandboxes of the kind {kind} can't open doors to models or hosts")
    reach = sandbox.reach
    ports = await _find_ports(owner, reach)
    return Reaching(scene=scene, owner=owner, reach=reach, ports=ports, is_adopted=is_adopted)


async def _find_ports(owner: GatewayOwner, reach: Reach) -> tuple[int, int]:
    """Where doors are. An agent that outlives both us and its gateway finds them where they were."""
    match reach.way:
        case "planted":
            return OWN_PORTS
        case "bridge":
            return (await owner.listen(reach.host, OWN_PORTS)).ports
        case "loopback":
            return (await owner.listen(reach.host, ANY_PORTS)).ports
        case _:
            assert_never(reach.way)
