"""Makes containers, and removes them when their results are durable.

Rules: leaving a sandbox ends its processes; its container stays until the attempt is released, because until
then it is the only copy of facts that a crash must not lose. Where the attempt was cancelled nothing is owed
to it, and it goes at once.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.experiment.model import SandboxPlan
from labrunner.sandbox.docker.answers import EngineFacts, ImageFacts
from labrunner.sandbox.docker.configuration import Guest, configure, enforced
from labrunner.sandbox.docker.container import Container
from labrunner.sandbox.docker.engine import Engine
from labrunner.sandbox.docker.graderpart import GraderPart
from labrunner.sandbox.docker.images import Images
from labrunner.sandbox.docker.insistence import insist
from labrunner.sandbox.docker.labels import Role, Tag
from labrunner.sandbox.docker.removal import Removals
from labrunner.sandbox.docker.sandbox import DockerSandbox
from labrunner.sandbox.docker.stage import Stage
from labrunner.sandbox.docker.text import House
from labrunner.sandbox.door import (
    NO_DEMANDS,
    AttemptFolders,
    Check,
    Demands,
    GuestPaths,
    Sandbox,
    SandboxSpec,
    Survivor,
)
from labrunner.sandbox.marks import RunMark
from labrunner.sandbox.paths import AGENTLAB, guest_paths

EXPIRY_S: Final = 24 * 3600
"""How long a container waits for somebody to come back."""
EXPIRY_SPREAD_S: Final = 100_000
"""Added by chance, so that nothing inside can know the number by which its timer is recognised."""


class DockerMaker:
    """Makes containers on one engine."""

    def __init__(self, engine: Engine | None = None, *, expiry_s: int = EXPIRY_S) -> None:
        """Connect to nothing yet."""
        self.engine = engine or Engine()
        self._images = Images(self.engine)
        self._removals = Removals(self.engine)
        self._expiry_s = expiry_s
        self._facts: EngineFacts | None = None

    @property
    def outlives_runner(self) -> bool:
        """A container needs nobody to go on."""
        return True

    def guest_paths(self, folders: AttemptFolders, agent_dir: Path | None) -> GuestPaths:
        """The same in every container."""
        del folders, agent_dir
        return guest_paths("python3")

    async def preflight(self, plan: SandboxPlan, demands: Demands = NO_DEMANDS) -> tuple[Check, ...]:
        """Prove with a container that attempts of this plan can be carried out."""
        return ()

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """Make a container; it is started by its first phase."""
        async with self._images.used(spec.plan) as image:
            await asyncio.to_thread(furnish, spec)
            stage = await self._set_stage(spec, image)
            async with self._held(spec, stage):
                limits = {**enforced(spec.plan, await self._engine_facts()), **_image_facts(image)}
                yield DockerSandbox(stage=stage, grader=GraderPart(stage=stage), limits=limits)

    async def survivors(self, run: RunMark) -> tuple[Survivor, ...]:
        """Find containers of this very run."""
        raise NotImplementedError

    def adopt(self, spec: SandboxSpec, survivor: Survivor) -> AbstractAsyncContextManager[Sandbox]:
        """Take over a container."""
        raise NotImplementedError

    async def reap(self, run: RunMark, keep: frozenset[str]) -> int:
        """Remove the containers of this very run but those of these tokens."""
        raise NotImplementedError

    async def release(self, token: str, *, keep: bool) -> None:
        """Remove an attempt's containers, now that its result is durable; or keep them for a look."""
        await self._removals.release(token, keep=keep)

    async def close(self) -> None:
        """Remove what was not released, and let go of the engine."""
        try:
            await self._removals.drain()
        finally:
            await self.engine.close()

    @asynccontextmanager
    async def _held(self, spec: SandboxSpec, stage: Stage) -> AsyncIterator[None]:
        """End the container's processes on leaving; remove it only if nothing can come of it any more."""
        token = spec.mark.token if spec.mark is not None else stage.container.nonce
        self._removals.hold(token, stage.container_ids)
        try:
            yield
        except BaseException:
            await insist(self._removals.release(token, keep=False))
            raise
        else:
            if spec.mark is None:
                await self._removals.release(token, keep=False)
            elif stage.is_alive:
                await stage.engine.kill(stage.container.id)
        finally:
            await insist(stage.container.detach())

    async def _set_stage(self, spec: SandboxSpec, image: ImageFacts) -> Stage:
        facts = await self._engine_facts()
        networked = any(network.mode == "full" for network in spec.demands.networks)
        expiry_s = self._expiry_s + secrets.randbelow(EXPIRY_SPREAD_S)

        async def make(role: Role) -> Container:
            nonce = secrets.token_hex(16)
            expires_at = int(time.time()) + expiry_s
            tag = Tag(mark=spec.mark, nonce=nonce, role=role, expires_at=expires_at, expiry_s=expiry_s)
            guest = Guest(
                image=image, engine=facts, expiry_s=expiry_s, labels=tag.labels(), is_networked=networked
            )
            id_ = await self.engine.create(configure(spec, guest), tag.name())
            return Container(self.engine, id_, spec.folders.ctl, nonce)

        return Stage(
            spec=spec,
            engine=self.engine,
            house=make_house(spec, image, facts),
            image_user=image.user,
            container=await make("attempt"),
            expiry_s=expiry_s,
            is_networked=networked,
            make=make,
        )

    async def _engine_facts(self) -> EngineFacts:
        if self._facts is None:
            self._facts = await self.engine.facts()
        return self._facts


def furnish(spec: SandboxSpec) -> None:
    """Put in place what only containers need, with rights that any user inside can use."""
    folders = spec.folders
    with SandboxFailed.during("prepare", f"preparing {folders.root} for a container"):
        folders.root.chmod(0o755)
        folders.inputs.chmod(0o755)
        folders.logs.chmod(0o700)
        folders.ctl.mkdir(mode=0o755)
        if spec.agent_dir is not None:
            folders.agent_mount.mkdir()
        script = resources.files("labrunner.sandbox.guest").joinpath("wrapper.sh").read_bytes()
        (folders.inputs / ".wrapper.sh").write_bytes(script)
        for path in folders.inputs.iterdir():
            path.chmod(0o644)


def make_house(spec: SandboxSpec, image: ImageFacts, engine: EngineFacts) -> House:
    """What all phases of an attempt have in common."""
    users = {user.split(":")[0] for user in (*spec.demands.users, image.user)} - {"", "0", "root"}
    ours = "0:0" if engine.is_rootless else f"{os.geteuid()}:{os.getegid()}"
    return House(
        image_env=image.env,
        workdir=spec.plan.workdir or f"{AGENTLAB}/workspace",
        owner=ours if users or ours != "0:0" else None,
        has_separate_user=bool(users),
    )


def _image_facts(image: ImageFacts) -> dict[str, str]:
    return {"image": image.id} | ({"image_ref": image.repo_digest} if image.repo_digest else {})
