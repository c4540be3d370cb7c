"""A node whose worker has begun, and how long nodes are waited for."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from labrunner.executor.cluster.rayport import RayWorker
from labrunner.executor.cluster.tidings import Begun, decode, encode
from labrunner.sandbox.door import Check, Survivor


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePace:
    """How long nodes are waited for, in seconds."""

    look_s: float = 1.0
    """How often it is looked which nodes there are."""
    start_s: float = 120.0
    """How long a worker may take to say who it is: a node's first one loads this program."""
    again_s: float = 5.0
    """After a node could not be used, it is tried again; each time twice as late."""
    latest_s: float = 300.0
    ping_s: float = 30.0
    """How often a worker is asked whether it is there."""
    silence_s: float = 180.0
    """How long it may take to answer that: whatever it does for attempts leaves it free to."""
    cancel_s: float = 120.0
    """How long it may take to end an attempt."""
    head_s: float = 30.0
    """How long the cluster's head may say nothing before all is given up: Ray ends us after a minute."""
    close_s: float = 20.0
    rejoin_s: float = 600.0
    """How long what lives on a node waits for its next worker, while Ray has the node: several tries to start
    one have to fit."""


NODE_PACE: Final = NodePace()


@dataclass(slots=True, kw_only=True)
class Node:
    """A node whose worker has begun."""

    id: str
    name: str
    worker: RayWorker
    begun: Begun
    taken: set[str] = field(default_factory=set)
    """Attempts that have one of its places, by token."""
    calls: set[str] = field(default_factory=set)
    """Attempts that it is at, those whose files are on their way among them."""
    is_open: bool = False
    """Whether it gets new attempts."""
    is_shut: bool = False
    """Whether it is to be tried again before it gets new ones, once it is at nothing any more."""
    is_lost: bool = False
    loss: str = ""
    """Why it was lost."""
    _left: "asyncio.Future[tuple[Survivor, ...]] | None" = None

    @property
    def free(self) -> int:
        """Places that nobody has."""
        return self.begun.places - len(self.taken) if self.is_open else 0

    async def preflight(self) -> tuple[Check, ...]:
        """Whether attempts can be carried out there."""
        return decode(await self.worker.call("preflight"), tuple[Check, ...])

    async def survivors(self) -> tuple[Survivor, ...]:
        """What is left there that can be gone on with."""
        return decode(await self.worker.call("survivors"), tuple[Survivor, ...])

    async def find_left(self) -> tuple[Survivor, ...]:
        """What earlier workers left: asked once, for all that wait for it; again only if nothing was said."""
        if self._left is None:
            self._left = asyncio.ensure_future(self.survivors())
            self._left.add_done_callback(self._hear_left)
        return await asyncio.shield(self._left)

    def _hear_left(self, left: "asyncio.Future[tuple[Survivor, ...]]") -> None:
        if left.cancelled() or left.exception() is not None:
            self._left = None

    async def reap(self, keep: frozenset[str]) -> int:
        """Remove all but these."""
        return decode(await self.worker.call("reap", encode(sorted(keep))), int)
