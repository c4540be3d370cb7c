"""Where an attempt's container stands: alive or not, on the network or not, started how often.

Both halves of an attempt, the agent's and the grader's, act on it through this.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from labrunner.errors import SandboxFailed, SetupFailed, SystemBroken
from labrunner.files.layering.layernote import LAYER
from labrunner.files.strangers.settling import settle
from labrunner.files.strangers.usage import count
from labrunner.files.uninterrupted import insist
from labrunner.records.facts.exit_status import NO_COMMAND
from labrunner.sandbox.docker.attempt.container import Container
from labrunner.sandbox.docker.attempt.patience import PATIENCE, ContainerPatience
from labrunner.sandbox.docker.attempt.reclaiming import find_foreign, reclaim, reopen, take
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused, StreamsEnded
from labrunner.sandbox.docker.engine.labels import Role
from labrunner.sandbox.docker.engine.replies import ContainerChange, ContainerState, ImageFacts
from labrunner.sandbox.docker.networking.membership import Membership
from labrunner.sandbox.docker.watching.layer import Layer
from labrunner.sandbox.docker.watching.layerwatch import watch_layer
from labrunner.sandbox.docker.watching.pristine import Pristine
from labrunner.sandbox.docker.watching.sightings import BarrierRecord, write_record
from labrunner.sandbox.docker.watching.users import login
from labrunner.sandbox.docker.worklayer.restoring import put_layer
from labrunner.sandbox.docker.wrapper import script
from labrunner.sandbox.docker.wrapper.configuration import mounts
from labrunner.sandbox.docker.wrapper.scratch import lend_input, make_scratch
from labrunner.sandbox.door import AgentRun, Phase, PhaseEnd, Reach, SandboxSpec
from labrunner.sandbox.paths import AGENTLAB
from labrunner.sandbox.processes.disk import DiskGuard
from labrunner.sandbox.processes.enforcement import Share

OUTSIDE: Final = frozenset({"kill", "stop", "destroy", "restart"})
"""What the engine does to a container when somebody asks it to."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """A phase used up what it had: its disk, or else its time; or it was halted."""

    of_disk: bool
    is_halted: bool = False
    """Somebody wanted its end."""

    def end(self) -> PhaseEnd:
        """How the phase ended: by us."""
        timed_out = not (self.of_disk or self.is_halted)
        return PhaseEnd(exit_status=None, timed_out=timed_out, over_disk=self.of_disk)


@dataclass(slots=True, kw_only=True)
class Stage:
    """One attempt's container, as far as we have brought it."""

    spec: SandboxSpec
    engine: Engine
    basics: script.PhaseBasics
    image: ImageFacts
    pristine: Pristine
    make: Callable[[Role], Awaitable[Container]]
    """Makes a container of this attempt."""
    aside: Callable[[], AbstractAsyncContextManager[str]]
    """A container like it that runs, does nothing, sees none of the attempt's folders, and is then over."""
    expiry_s: int
    membership: Membership
    """Networks that the container is on."""
    reach: Reach
    """How phases come to their doors."""
    patience: ContainerPatience = PATIENCE
    is_begun: bool = False
    """Its plan was sent."""
    is_alive: bool = False
    end_state: ContainerState | None = None
    """How the engine found the container's first life ended, if it did."""
    is_handed_back: bool = False
    """The wrapper has said that the files are ours again."""
    is_renewed: bool = False
    """The container is a pristine one, made for the grader."""
    lacks_work: bool = False
    """It still lacks what the agent left in a folder of its image."""
    disks: tuple[Path, ...] = ()
    """Where the engine keeps what containers write, if that is on this machine."""
    layer: Path | None = None
    """Where the container writes outside its folders, as the engine's host sees it."""
    lower: tuple[Path, ...] = ()
    """What lies below that, topmost first."""
    keeps_numbers: bool = True
    """Users inside have the same numbers there."""
    listed: tuple[ContainerChange, ...] | None = None
    """What the engine said last of changes outside the container's mounts."""
    changes_s: float = 0.0
    """How long it took to find out what was changed in the system, the last time."""
    volumes: tuple[Path, ...] = ()
    """The same for volumes that its image asks for."""
    record: BarrierRecord | None = None
    container: Container = field(init=False)
    over: list[str] = field(default_factory=list)
    """Those that were made aside, and are of no more use; removed when the attempt is released."""
    container_ids: list[str] = field(default_factory=list)
    """Every container that was made for this attempt; the agent's first."""

    async def furnish(self, role: Role) -> None:
        """Make a container, and stand on it. Cancelling does not lose one that the engine makes meanwhile."""
        await insist(self._furnish(role), is_in_vain=self.engine.has_left)

    async def _furnish(self, role: Role) -> None:
        self.container = await self.make(role)
        self.container_ids.append(self.container.id)

    def user(self, phase: Phase) -> str:
        """Who runs a phase; empty for root, which is the wrapper's own user."""
        user = phase.user or self.image.user
        return "" if login(user) in {"0", "root"} else user

    def prepare(self, phase: Phase) -> script.Start:
        """Make a phase's private folders."""
        with SandboxFailed.during("scratch", f"making scratch folders below {self.spec.folders.scratch}"):
            place = make_scratch(self.spec.folders.scratch, phase.name)
            given = lend_input(self.spec.folders.inputs, phase.stdin)
        env = {**phase.env, "AGENTLAB_IMAGE_USER": self.image.user}
        return script.Start(
            phase=replace(phase, env=env),
            user=self.user(phase),
            scratch=f"{AGENTLAB}/scratch/{place}",
            input=given,
        )

    async def start(self, plan: str, first: Phase) -> None:
        """Start the container, have the network and the doors of its first phase, and hand over its plan."""
        try:
            await self.container.start()
        except EngineRefused as refusal:
            raise await self._explain(refusal) from refusal
        self.is_alive, self.is_handed_back = True, False
        if self.lacks_work:
            await put_layer(self.engine, self.container.id, self.spec.folders.root / LAYER, disks=self.disks)
            self.lacks_work = False
        if self.membership.can_change:
            self.membership.note(await self.container.look())
        await self.switch(first)
        try:
            await self.container.tell(plan)
        except StreamsEnded:
            # One that has ended already is for whoever waits for it.
            if (await self.container.look()).is_alive:
                raise
        if not self.is_begun or self.is_renewed:
            self.note_places(await self.container.look())
        self.is_begun = True

    def note_places(self, state: ContainerState) -> None:
        """Remember where the container writes outside its folders, as far as its host tells."""
        self.layer = None if state.upper_dir is None else Path(state.upper_dir)
        self.lower = tuple(map(Path, state.lower_dirs))
        self.volumes = tuple(map(Path, state.volumes))

    async def changes(self) -> tuple[str, ...]:
        """Paths outside the container's mounts that differ from its image: read from its layer, or asked."""
        started = time.monotonic()
        try:
            layer = None if self.layer is None else Layer(upper=self.layer, lower=self.lower)
            if layer is not None and layer.can_be_read:
                with SandboxFailed.during("layer", f"looking for changes in {layer.upper}"):
                    return await asyncio.to_thread(layer.changes)
            self.listed = await self.engine.changes(self.container.id)
            return tuple(change.path for change in self.listed)
        finally:
            self.changes_s = time.monotonic() - started

    async def start_again(self, first: Phase) -> None:
        """Start the container once more, for a grader alone, with a nonce that its last life did not know."""
        record = self.record or BarrierRecord(run=AgentRun(setup=None, agent=None))
        if record.restarts == self.container.life:
            self.record = record = BarrierRecord(run=record.run, restarts=record.restarts + 1)
            await asyncio.to_thread(write_record, self.spec.folders, self.record)
        self.container.life = record.restarts
        await self.start(script.plan_text(self.basics, self.container.nonce, None, None, gate=False), first)

    async def renew(self, first: Phase) -> None:
        """Go on in a pristine container of the same image, over the same folders."""
        if self.is_alive:
            await self.end()
        await self.container.detach()
        await self.furnish("grader")
        self.is_renewed, self.lacks_work = True, self._has_layer()
        await self.start(script.plan_text(self.basics, self.container.nonce, None, None, gate=False), first)

    def _has_layer(self) -> bool:
        """Whether there is work to be put into a new container. Raises SystemBroken where it is lost."""
        taken = None if self.record is None else self.record.run.layer
        if taken is not None and not taken.is_there:
            raise SystemBroken("layer_lost", f"the agent's work can't be judged elsewhere: {taken.problem}")
        return taken is not None and not self.spec.demands.leaves_work

    async def end(self, *, patience_s: float = 0.0) -> ContainerState:
        """See every process of the container end: by itself in this time, or killed."""
        self.end_state = state = await self.container.end(patience_s=patience_s)
        self.is_alive = False
        return state

    async def detach(self) -> None:
        """Let go of the container's streams, if it came to be one."""
        if self.container_ids:
            await self.container.detach()

    async def switch(self, phase: Phase) -> None:
        """Put the container on the networks of a phase and on no other, and open the phase's doors."""
        if phase.network.mode == "allow" and phase.doors is None:
            raise SandboxFailed(
                "network", "docker sandboxes can't keep a list of allowed hosts; write none or full"
            )
        await self.membership.move(self.container.id, phase)
        if phase.doors is not None:
            await self.container.open_doors(phase.doors)

    async def reclaim(self) -> None:
        """Make the attempt's files ours, if its wrapper could not hand them back."""
        if self.basics.owner is None or self.is_handed_back or not self.is_begun:
            return
        self.is_handed_back = True
        folders = self.spec.folders
        places = (*self.written, folders.ctl)
        with suppress(OSError, TimeoutError, SandboxFailed):
            if os.geteuid() == 0:
                await asyncio.to_thread(take, places)
            elif await asyncio.to_thread(_has_foreign, places):
                seen = list(mounts(folders, None))
                await reclaim(self.engine, self.image.id, seen, self.basics.owner)

    async def reopen(self) -> None:
        """Have the folders that we go on with open to us: an agent can close them to their owner."""
        folders = self.spec.folders
        await asyncio.to_thread(reopen, (folders.ctl, folders.logs, folders.scratch))

    async def keep_record(self, run: AgentRun) -> None:
        """Write down what was seen at the barrier, once what the agent left is durable.

        Where the container has ended, its next life is counted already: it begins without another note.
        """
        goes_on = run.agent is not None and not run.wrapper_killed and not self.is_alive
        is_next = goes_on and not self.is_left(run)
        self.record = BarrierRecord(run=run, restarts=self.container.life + is_next)
        await asyncio.to_thread(write_record, self.spec.folders, self.record)

    async def settle(self) -> None:
        """Make durable what the agent left."""
        folders = self.spec.folders
        with SandboxFailed.during("settle", f"making durable what the agent left in {folders.root}"):
            await asyncio.to_thread(settle, (folders.workspace, folders.out, folders.state))

    async def within(self, limit_s: float, phase: Phase, work: Awaitable[T]) -> T | Overrun:
        """Do the work unless time or the attempt's share of the disk runs out, or somebody halts it."""
        limit, name = asyncio.timeout(limit_s), phase.name
        guard = DiskGuard(
            folders=self.guarded,
            share=Share.of(self.spec.plan),
            disks=self.disks,
            beyond_first_walk=name == "grader",
            on_over=lambda: limit.reschedule(asyncio.get_running_loop().time()),
        )
        guard.start()
        beside = [asyncio.ensure_future(self._watch_layer(guard))]
        if phase.halt is not None:
            beside.append(asyncio.ensure_future(_halt(phase.halt, limit)))
        try:
            async with limit:
                found: T | Overrun = await work
        except TimeoutError:
            is_halted = phase.halt is not None and phase.halt.is_set()
            found = Overrun(of_disk=guard.over, is_halted=is_halted)
        finally:
            guard.stop()
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
        if guard.room.seen and name == "agent" and not guard.over and await self.is_over_disk():
            return Overrun(of_disk=True)
        guard.refuse_full()
        return found

    async def _watch_layer(self, guard: DiskGuard) -> None:
        """Let the guard know by the engine's word what it can't see for itself."""
        if self._can_be_measured:
            return
        await watch_layer(
            self.engine,
            self.container.id,
            guard.share.bytes,
            guard.tell_over,
            beyond_first=guard.beyond_first_walk,
            pause_s=self.patience.layer_pause_s,
        )

    async def is_over_disk(self) -> bool:
        """Whether the attempt holds too much now: an answer that does not depend on a guard's round."""
        used, files = await asyncio.to_thread(count, self.guarded)
        if not self._can_be_measured:
            used += await self.engine.layer_size(self.container.id)
        return not Share.of(self.spec.plan).holds((used, files))

    @property
    def guarded(self) -> tuple[Path, ...]:
        """Where an attempt can fill the disk; outside its own folders only as far as we may look."""
        layer = (self.layer,) if self.layer is not None and self._can_be_measured else ()
        return (*self.written, *layer, *self.volumes)

    @property
    def _can_be_measured(self) -> bool:
        """Whether what the container writes outside its folders can be seen from here, or there is none."""
        return self.spec.plan.read_only or (self.layer is not None and can_look_into(self.layer))

    @property
    def must_renew(self) -> bool:
        """Whether no grader may run in this container: it wants a pristine one.

        Follows from what was written down at the barrier: whoever adopts the attempt decides the same.
        """
        return not self.is_renewed and self.record is not None and self.is_left(self.record.run)

    def is_left(self, run: AgentRun) -> bool:
        """Whether the container is left behind at this barrier, for a pristine one."""
        demands = self.spec.demands
        if run.agent is None or run.wrapper_killed:
            return False
        # What is not known may be a change.
        may_be_changed = run.system_changes != () or self._may_be_misled
        return demands.fresh_grader or (demands.renews_changed and may_be_changed)

    @property
    def _may_be_misled(self) -> bool:
        """Whether graders ask hosts by name where the agent was root: `/etc/hosts` is in no list."""
        demands = self.spec.demands
        asking = demands.networks[1:] if demands.any_user else demands.networks[2:]
        is_online = any(network.mode != "none" for network in asking)
        return is_online and self.basics.is_shared and not self.spec.plan.read_only

    @property
    def has_changed_system(self) -> bool:
        """Whether the agent changed the system, or may have where nobody wanted to know."""
        run = self.record.run if self.record is not None else None
        if run is None or run.agent is None or self.is_renewed:
            return False
        is_unknown = run.system_changes is None and self.basics.is_shared and not self.spec.plan.read_only
        return is_unknown or bool(run.system_changes)

    @property
    def may_be_setups(self) -> bool:
        """Whether changes of the system may be those of a setup that nobody noted."""
        has_setup = self.record is not None and self.record.run.setup is not None
        return has_setup and not self.spec.demands.tells_setup_apart

    @property
    def written(self) -> tuple[Path, ...]:
        """The attempt's folders that are written from inside."""
        folders = self.spec.folders
        return (folders.workspace, folders.out, folders.state, folders.logs, folders.scratch)

    async def _explain(self, refusal: EngineRefused) -> SandboxFailed | SetupFailed:
        """Why a container did not start, by the engine's own state."""
        if refusal.is_not_found:
            return SandboxFailed("container_gone", f"{refusal}: somebody else has removed it")
        state = await self.engine.look(self.container.id)
        if state.exit_code in NO_COMMAND:
            return SetupFailed("no_shell", f"the image has no /bin/sh that can be started: {state.error}")
        return refusal


async def _halt(halt: asyncio.Event, limit: asyncio.Timeout) -> None:
    await halt.wait()
    limit.reschedule(asyncio.get_running_loop().time())


def can_look_into(folder: Path) -> bool:
    """Whether this user may list a folder."""
    return os.access(folder, os.R_OK | os.X_OK)


def _has_foreign(folders: tuple[Path, ...]) -> bool:
    try:
        return any(True for _ in find_foreign(folders))
    except PermissionError:
        return True
