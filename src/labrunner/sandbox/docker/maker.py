"""Makes containers, and removes them when their results are durable.

Rules: leaving a sandbox ends its processes; its container stays until the attempt is released, because until
then it is the only copy of facts that a crash must not lose. Where the attempt was cancelled nothing is owed
to it, and it goes at once.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import SandboxPlan
from labrunner.files.uninterrupted import insist
from labrunner.sandbox.docker.attempt.calls import DockerCalls
from labrunner.sandbox.docker.attempt.container import Container
from labrunner.sandbox.docker.attempt.disposal import Removals
from labrunner.sandbox.docker.attempt.grader_side import GraderSide
from labrunner.sandbox.docker.attempt.patience import PATIENCE, ContainerPatience
from labrunner.sandbox.docker.attempt.sandbox import DockerSandbox
from labrunner.sandbox.docker.attempt.stage import Stage
from labrunner.sandbox.docker.attempt.survivors import Left, find_left, judge, list_own
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.images import Images
from labrunner.sandbox.docker.engine.labels import PROBE, Role, is_orphan
from labrunner.sandbox.docker.engine.replies import EngineFacts, ImageFacts, NetworkFacts
from labrunner.sandbox.docker.fittings import furnish, make_basics, tell_limits
from labrunner.sandbox.docker.moulding import Mould
from labrunner.sandbox.docker.networking.membership import Membership
from labrunner.sandbox.docker.networking.run_networks import RunNetworks, find_way
from labrunner.sandbox.docker.probing.container_check import (
    check_barrier,
    check_deferred,
    check_demands,
    check_engine,
    check_image,
    check_probe,
    check_reach,
    check_room,
    check_volumes,
    unreachable,
)
from labrunner.sandbox.docker.probing.probe import probe
from labrunner.sandbox.docker.probing.probe_cache import find_proof, keep_proof, name_proof
from labrunner.sandbox.docker.watching.pristine import Pristine
from labrunner.sandbox.docker.watching.sightings import BarrierRecord
from labrunner.sandbox.docker.watching.users import Users
from labrunner.sandbox.docker.wrapper.configuration import check_enforced
from labrunner.sandbox.docker.wrapper.script import PhaseBasics, find_excess
from labrunner.sandbox.docker.wrapper.syscalls import check_filter
from labrunner.sandbox.door import (
    NO_DEMANDS,
    AgentRun,
    AttemptFolders,
    Check,
    Demands,
    GuestPaths,
    Phase,
    PhaseEnd,
    Reach,
    ReachWay,
    Sandbox,
    SandboxSpec,
    Survivor,
)
from labrunner.sandbox.longest_word import find_long_word
from labrunner.sandbox.marks import RunMark
from labrunner.sandbox.paths import guest_paths, works_in_image

EXPIRY_S: Final = 24 * 3600
"""How long a container waits for somebody to come back."""
EXPIRY_SPREAD_S: Final = 100_000
"""Added by chance, so that the timer of one container is not that of another."""


class DockerMaker:
    """Makes containers on one engine."""

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        expiry_s: int = EXPIRY_S,
        spread_s: int = EXPIRY_SPREAD_S,
        trusts_proofs: bool = True,
        patience: ContainerPatience = PATIENCE,
        way: ReachWay | None = None,
    ) -> None:
        """Connect to nothing yet. Preflight may trust what it has proven before, or try everything anew.

        `way` is how doors are reached; None for the best that this user can have.
        """
        self.engine = engine or Engine()
        self._images = Images(self.engine)
        self._removals = Removals(self.engine)
        self._users = Users(self.engine)
        self._pristine = Pristine(self.engine)
        self._networks = RunNetworks(self.engine)
        self._way = way
        self._plans: dict[str, SandboxPlan] = {}
        self._expiry_s = expiry_s
        self._spread_s = spread_s
        self._trusts_proofs = trusts_proofs
        self._patience = patience
        self._facts: EngineFacts | None = None
        self._engine_checks: tuple[Check, ...] | None = None

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
        try:
            facts = await self._engine_facts()
            checks = [*await self._check_engine(facts), check_enforced(plan, facts)]
        except SandboxFailed as failure:
            return (unreachable(failure),)
        checks += (*check_demands(plan, demands), *check_reach(demands, self._find_way(facts), facts))
        try:
            if await self._images.is_deferred(plan):
                return (*checks, check_deferred(plan))
            image = await self._images.resolve(plan)
        except SandboxFailed as failure:
            return (*checks, Check(name="image", passed=False, message=str(failure)))
        checks += (check_image(plan, image), *check_volumes(plan, image, facts))
        checks += (check_barrier(demands, is_shared=await self._is_shared(demands, image)),)
        return (*checks, *await self._prove(plan, demands, image))

    async def _prove(self, plan: SandboxPlan, demands: Demands, image: ImageFacts) -> tuple[Check, ...]:
        """Carry out a probe, or remember one."""
        facts = await self._engine_facts()
        name = name_proof(plan, demands, image, facts, self._find_way(facts))
        known = find_proof(name) if self._trusts_proofs else None
        outcome = known or await probe(self, plan, demands)
        if known is None and outcome.problem is None:
            keep_proof(name, outcome)
        return tuple(check_probe(plan, outcome, is_remembered=known is not None))

    async def _check_engine(self, facts: EngineFacts) -> tuple[Check, ...]:
        """What is told of the engine, looked at once: its room is another a moment later."""
        if self._engine_checks is None:
            self._engine_checks = (check_engine(facts), check_room(facts), *check_filter(facts))
            await self.reap_probes()
        return self._engine_checks

    def find_excess(self, plan: SandboxPlan, setup: Phase | None, agent: Phase, grader: Phase) -> str | None:
        """What a wrapper could not be told, with the variables of an image that is known by now."""
        told = find_excess(self._images.known_env(plan), setup, agent, grader)
        return told or find_long_word(setup, agent, grader)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """Make a container; it is started by its first phase."""
        async with self._made(spec, "attempt") as sandbox:
            try:
                yield sandbox
            finally:
                await sandbox.calls.close()

    @asynccontextmanager
    async def _made(self, spec: SandboxSpec, role: Role) -> AsyncIterator[DockerSandbox]:
        # A probe's image is not given back: the run that it was made for has yet to come.
        find = self._images.resolve if spec.mark is None else self._images.take
        facts, image = await self._engine_facts(), await find(spec.plan)
        if spec.mark is None:
            await self.reap_probes()
        await asyncio.to_thread(furnish, spec)
        basics = make_basics(spec, image, facts, is_shared=await self._is_shared(spec.demands, image))
        expiry_s = self._expiry_s + secrets.randbelow(self._spread_s)
        is_bridged = self._find_way(facts) == "bridge" and spec.demands.has_doors
        network = await self._networks.take(spec) if is_bridged else None
        stage = self._stage(spec, image, facts, basics, expiry_s, network)
        stage.lacks_work = spec.demands.brings_work
        async with self._held(spec, stage):
            await stage.furnish(role)
            yield self._sandbox(stage, image, facts, GraderSide(stage=stage))

    async def survivors(self, run: RunMark) -> tuple[Survivor, ...]:
        """Find containers of this very run."""
        return tuple(judge(left) for left in await find_left(self.engine, run))

    @asynccontextmanager
    async def adopt(self, spec: SandboxSpec, survivor: Survivor) -> AsyncIterator[Sandbox]:
        """Take over a container; how far it is, is looked up again: it has gone on meanwhile."""
        if survivor.ended is not None:
            async with self._stand_again(spec, survivor.ended) as sandbox:
                yield sandbox
            return
        left = await self._find(spec, survivor)
        facts, image = await self._engine_facts(), await self.engine.image(left.state.image)
        self._images.hold(spec.plan)
        basics = make_basics(spec, image, facts, is_shared=left.tag.is_shared)
        network = await self._networks.take(spec) if left.tag.is_bridged else None
        stage = self._stage(spec, image, facts, basics, left.tag.expiry_s, network)
        take_over(stage, left)
        tries = judge(left).grader_tries
        async with self._held(spec, stage):
            if left.record is not None and left.state.is_alive and not left.note.is_certain:
                await stage.end()  # started again, and perhaps told only half of its plan
            grader = GraderSide(stage=stage, tries=tries, is_under_way=tries > 0)
            yield self._sandbox(stage, image, facts, grader)

    @asynccontextmanager
    async def _stand_again(self, spec: SandboxSpec, ended: PhaseEnd) -> AsyncIterator[Sandbox]:
        """Stand at a barrier with a pristine container: of its agent's, only the folders are left."""
        async with self._made(spec, "grader") as sandbox:
            stage = sandbox.stage
            stage.record, stage.is_renewed = BarrierRecord(run=AgentRun(setup=None, agent=ended)), True
            stage.lacks_work = works_in_image(spec.plan.workdir) and not spec.demands.leaves_work
            yield sandbox

    async def _find(self, spec: SandboxSpec, survivor: Survivor) -> Left:
        if spec.mark is not None:
            for left in await find_left(self.engine, spec.mark.run):
                if left.mark.token == survivor.token:
                    return left
        raise SandboxFailed("container_gone", f"the container of {survivor.trial_id} is not there any more")

    async def reap(self, run: RunMark, keep: frozenset[str], *, kept: bool = False) -> int:
        """Remove the containers of this very run but those of these tokens; `kept` ones only when asked."""
        own = await list_own(self.engine, run, kept=kept)
        doomed = [(each, tag.mark) for each, tag in own if tag.mark is None or tag.mark.token not in keep]
        await self._removals.remove_all([each.id for each, _ in doomed])
        if not keep:
            await self._networks.remove(run)
        return len(doomed)

    async def reap_probes(self) -> int:
        """Remove probes whose process is gone."""
        orphans = [each.id for each in await self.engine.list(PROBE) if is_orphan(each.labels)]
        await self._removals.remove_all(orphans)
        await self._networks.remove_orphans()
        return len(orphans)

    async def release(self, token: str, *, keep: bool) -> None:
        """Remove an attempt's containers, now that its result is durable; or keep them for a look."""
        await self._removals.release(token, keep=keep)
        plan = self._plans.pop(token, None)
        if plan is not None:
            await self._images.give_back(plan)

    async def close(self) -> None:
        """Let go of the engine. Containers that were not released stay: their results may not be durable."""
        try:
            await self._networks.close()
            with suppress(SandboxFailed):  # an image that can't be removed now stays
                await self._images.prune()
        finally:
            self._networks.rest()
            self._images.rest()
            self._removals.rest()
            self._users.rest()
            self._pristine.rest()
            await self.engine.close()

    @asynccontextmanager
    async def _held(self, spec: SandboxSpec, stage: Stage) -> AsyncIterator[None]:
        """End the container's processes on leaving; remove it only if nothing can come of it any more."""
        token = spec.mark.token if spec.mark is not None else secrets.token_hex(8)
        self._removals.hold(token, stage.container_ids, stage.over)
        if spec.mark is not None:
            self._plans[token] = spec.plan
        is_owed, leaving_since = spec.mark is None, None
        try:
            yield
        except asyncio.CancelledError:
            is_owed, leaving_since = True, time.monotonic()
            raise
        finally:
            leave = self._leave(stage, token, is_owed=is_owed)
            await insist(leave, is_in_vain=self.engine.has_left, leaving_since=leaving_since)

    async def _leave(self, stage: Stage, token: str, *, is_owed: bool) -> None:
        await stage.detach()
        if is_owed:
            await self.release(token, keep=False)
            return
        if stage.is_alive:
            await stage.engine.kill(stage.container.id)
        await stage.reclaim()

    async def _is_shared(self, demands: Demands, image: ImageFacts) -> bool:
        """Whether agent and wrapper are one user, or may be."""
        return demands.any_user or await self._users.is_root(image, demands.agent_user)

    def _find_way(self, facts: EngineFacts) -> ReachWay:
        return self._way or find_way(facts)

    def _stage(
        self,
        spec: SandboxSpec,
        image: ImageFacts,
        facts: EngineFacts,
        basics: PhaseBasics,
        expiry_s: int,
        network: NetworkFacts | None,
    ) -> Stage:
        membership = Membership(
            engine=self.engine,
            has_full=any(each.mode == "full" for each in spec.demands.networks),
            own=None if network is None else network.name,
        )

        mould = Mould(
            engine=self.engine,
            spec=spec,
            image=image,
            facts=facts,
            expiry_s=expiry_s,
            membership=membership,
            is_shared=basics.is_shared,
            is_bridged=network is not None,
        )
        return Stage(
            aside=mould.make_aside,
            over=mould.over,
            spec=spec,
            engine=self.engine,
            basics=basics,
            pristine=self._pristine,
            image=image,
            make=mould.make,
            expiry_s=expiry_s,
            patience=self._patience,
            membership=membership,
            reach=Reach(way="planted") if network is None else Reach(way="bridge", host=network.address),
            disks=(Path(facts.root_dir),) if facts.root_dir else (),
            keeps_numbers=not (facts.is_rootless or facts.remaps_users),
        )

    def _sandbox(
        self, stage: Stage, image: ImageFacts, facts: EngineFacts, grader: GraderSide
    ) -> DockerSandbox:
        limits = tell_limits(stage.spec, image, facts)
        return DockerSandbox(stage=stage, grader=grader, calls=DockerCalls(stage=stage), limits=limits)

    async def _engine_facts(self) -> EngineFacts:
        if self._facts is None:
            self._facts = await self.engine.facts()
        return self._facts


def take_over(stage: Stage, left: Left) -> None:
    """Stand where the runner before us stood."""
    stage.container = Container(stage.engine, left.id, stage.spec.folders.ctl, left.tag.nonce, life=left.life)
    stage.container_ids.extend(left.ids)
    stage.is_begun = True
    stage.is_alive = left.state.is_alive
    stage.membership.note(left.state)
    stage.is_renewed = left.tag.role == "grader"
    stage.record = left.record
    if stage.is_renewed and not left.note.is_certain:
        # Of the layer that was to be put into it nobody knows how much is there.
        is_carried = left.record is not None and left.record.run.layer is not None
        stage.lacks_work = is_carried and not stage.spec.demands.leaves_work
    stage.note_places(left.state)
