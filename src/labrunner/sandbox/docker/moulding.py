"""What every container of one attempt is made from: the same settings, a fresh nonce and name each time."""

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from labrunner.sandbox.docker.attempt.container import Container
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import Role, Tag
from labrunner.sandbox.docker.engine.reconnect import outlast
from labrunner.sandbox.docker.engine.replies import EngineFacts, ImageFacts
from labrunner.sandbox.docker.networking.membership import Membership
from labrunner.sandbox.docker.worklayer.patching import IDLE, made_aside
from labrunner.sandbox.docker.wrapper.configuration import NOWHERE, Guest, configure
from labrunner.sandbox.door import SandboxSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Mould:
    """Makes the containers of one attempt."""

    engine: Engine
    spec: SandboxSpec
    image: ImageFacts
    facts: EngineFacts
    expiry_s: int
    membership: Membership
    is_shared: bool
    """Whether agent and wrapper are one user, or may be."""
    is_bridged: bool
    """Whether the gateway is reached over a network of the run's own."""
    over: list[str] = field(default_factory=list)
    """Those that were made aside and are of no more use; for whoever removes the attempt's others."""

    async def make(self, role: Role) -> Container:
        """Make one that waits for its wrapper to be told what to do."""
        tag = Tag(
            mark=self.spec.mark,
            nonce=secrets.token_hex(16),
            role=role,
            expires_at=int(time.time()) + self.expiry_s,
            expiry_s=self.expiry_s,
            is_shared=self.is_shared,
            is_bridged=self.is_bridged,
        )
        guest = Guest(
            image=self.image,
            engine=self.facts,
            expiry_s=self.expiry_s,
            labels=tag.labels(),
            network=self.membership.first,
            has_names=self.membership.first != self.membership.own,
        )
        id_ = await outlast(lambda: self.engine.create(configure(self.spec, guest), tag.name()))
        return Container(self.engine, id_, self.spec.folders.ctl, tag.nonce)

    @asynccontextmanager
    async def make_aside(self) -> AsyncIterator[str]:
        """Make one that runs, does nothing, sees none of the attempt's folders, and is over on leaving."""
        nonce = secrets.token_hex(16)
        tag = Tag(mark=None, nonce=nonce, role="attempt", expires_at=int(time.time()), expiry_s=0)
        guest = Guest(
            image=self.image,
            engine=self.facts,
            expiry_s=0,
            labels=tag.labels(),
            network=NOWHERE,
            has_names=False,
        )
        config = configure(self.spec, guest) | {"Entrypoint": list(IDLE), "Cmd": []}
        config["HostConfig"] |= {"Mounts": []}
        async with made_aside(self.engine, config, tag.name(), self.over) as container:
            yield container
