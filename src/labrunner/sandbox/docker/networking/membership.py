"""Which networks an attempt's container is on: those of the phase that runs in it, and no others."""

from dataclasses import dataclass
from typing import Final

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.replies import ContainerState
from labrunner.sandbox.docker.wrapper.configuration import NOWHERE
from labrunner.sandbox.door import Phase

BRIDGE: Final = "bridge"
"""The engine's own network, which leads everywhere."""


@dataclass(slots=True, kw_only=True)
class Membership:
    """One container's, from one phase to the next."""

    engine: Engine
    has_full: bool
    """Some phase may reach everything."""
    own: str | None = None
    """The network of the run, over which doors are reached; None where none are, or they are planted."""
    joined: frozenset[str] = frozenset()

    @property
    def first(self) -> str:
        """The network that a container is made with: what is made without any can't join one later."""
        return BRIDGE if self.has_full else self.own or NOWHERE

    def note(self, state: ContainerState) -> None:
        """Take over where a container is: one that was taken off a network may be on it when it starts."""
        self.joined = state.networks

    @property
    def can_change(self) -> bool:
        """Whether the container can be on a network at all."""
        return self.first != NOWHERE

    async def move(self, container: str, phase: Phase) -> None:
        """Leave what a phase has nothing to do with, and join what it needs."""
        wanted = self._choose(phase)
        for name in sorted(self.joined - wanted):
            await self.engine.disconnect(container, name)
        for name in sorted(wanted - self.joined):
            await self.engine.connect(container, name)
        self.joined = wanted

    def _choose(self, phase: Phase) -> frozenset[str]:
        everything = (BRIDGE,) if phase.network.mode == "full" else ()
        doors = (self.own,) if phase.doors is not None and self.own is not None else ()
        return frozenset((*everything, *doors))
