"""Carrying out attempts on the nodes of a Ray cluster.

Rules: everything that a run needs to be right stays here: what is durable, what is committed, what is owed. A
worker that dies under an attempt is followed by another on its node, which goes on with what lives there, as
the next owner of a run does; where the node is gone, or nothing lives, the attempt is cut off and its slot
owed. An attempt that loses its node again and again is at fault itself.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from labrunner.errors import AttemptFailed, SandboxFailed
from labrunner.executor.cargo import OwnCode
from labrunner.executor.cluster import rayport
from labrunner.executor.cluster.briefing import Briefing, send_tapes
from labrunner.executor.cluster.hearing.ear import Ear, NodeFull
from labrunner.executor.cluster.hearing.lending import Lender
from labrunner.executor.cluster.hearing.treasury import Treasury
from labrunner.executor.cluster.hearing.unheard import complete_unheard
from labrunner.executor.cluster.homecoming import coming_home, find_way_home
from labrunner.executor.cluster.losses import Losses
from labrunner.executor.cluster.members.headwatch import HeadLost
from labrunner.executor.cluster.members.node import NODE_PACE, Node, NodePace
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.members.rounds import ask_every
from labrunner.executor.cluster.nodechecks import examine_node, name_namesakes, tell_nobody, tell_unused
from labrunner.executor.cluster.onnode.nodecall import DISK
from labrunner.executor.cluster.placement import Placement, Where
from labrunner.executor.cluster.rayport import ClusterPort, NodeLost, RayWorker
from labrunner.executor.cluster.strongbox import seal
from labrunner.executor.cluster.tidings import AttemptOrder, Begun, WorkerHello, decode, encode
from labrunner.executor.door import Discard, Executor
from labrunner.executor.local import LocalExecutor
from labrunner.executor.release import throw_away
from labrunner.files.strangers.masking import make_masker
from labrunner.files.strangers.removal import remove_if_possible
from labrunner.files.uninterrupted import wait_out
from labrunner.records.completion import AttemptEnd, Cancelled, Completion
from labrunner.sandbox.door import Check, SandboxMaker, Survivor
from labrunner.trial.assignment import Assignment, Notes, TrialContext, set_scene
from labrunner.trial.classification import spoilt
from labrunner.version import VERSION

NODE_LOST: Final = "node_lost"


class RayExecutor:
    """Hands attempts to the nodes of a cluster, and brings home what they left."""

    def __init__(
        self,
        context: TrialContext,
        make: Callable[[str], SandboxMaker],
        *,
        port: ClusterPort = rayport,
        pace: NodePace = NODE_PACE,
    ) -> None:
        """Take what all attempts share; nothing is looked for yet."""
        self._context, self._make = context, make
        plan = context.experiment.policy.executor
        self._nodes = Nodes(plan, self._prepare, self._begin, port=port, pace=pace)
        self._briefing: asyncio.Task[Briefing] | None = None
        self._placement = Placement(context, self._nodes)
        self._whereabouts: dict[str, Node] = {}
        """Nodes of attempts that are not released."""
        self._lender = Lender()
        self._masker = make_masker(context.secrets)
        self._treasury = Treasury(context, self._nodes)
        self._losses = Losses()
        self._code: OwnCode | None = None
        """Set where attempts are carried out by code that is not ours."""
        self._here: Executor | None = None
        """Set where an earlier owner of the run carried attempts out on this machine."""
        self._kept_here: set[str] = set()
        self._attempts_at: frozenset[str] | None = None

    def take_code(self, code: OwnCode) -> None:
        """Have attempts carried out by this code, on nodes."""
        self._code = code

    @property
    def places(self) -> int:
        """As many as the nodes have that are open."""
        return self._nodes.places

    @property
    def trouble(self) -> str:
        """Which nodes are not used; where none is, also why."""
        if self.places:
            return tell_unused(self._nodes)
        problems = [f"{name}: {why}" for name, why in sorted(self._nodes.problems.items())]
        return f"no node can be used: {'; '.join(problems)}" if problems else "waiting for a node to join"

    @property
    def end(self) -> str:
        """Why no node will ever be used again."""
        return self._nodes.end

    async def open(self, changed: Callable[[], None]) -> None:
        """Use every node that can be used."""
        self._nodes.call_on_change(changed)
        await self._nodes.open()

    async def preflight(self) -> tuple[Check, ...]:
        """Ask every node."""
        try:
            return await self._nodes.while_heard(self._examine)
        except (SandboxFailed, HeadLost) as failure:
            return (Check(name="cluster", passed=False, message=str(failure)),)

    def outlives_runner(self, assignment: Assignment) -> bool:
        """Whether its sandbox goes on without us, on its node."""
        if self._code is not None:
            return False  # what it has in memory ends with its worker
        variant = self._context.experiment.variants[assignment.slot.variant_idx]
        return self._make(variant.sandbox.kind).outlives_runner

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Carry out one attempt on some node, or go on with one where it is."""
        if survivor is not None and survivor.token in self._kept_here and self._here is not None:
            return await self._here.carry_out(assignment, notes, survivor)
        why = NODE_LOST
        try:
            where = await self._placement.find(assignment, survivor)
            while where is not None:
                try:
                    return await self._carry_out(where, assignment, notes)
                except NodeLost:
                    why, where = NODE_LOST, await self._find_again(where, assignment)
                except NodeFull as full:
                    why, where = DISK, await self._find_room(where, assignment, full)
        except AttemptFailed as failure:
            return self._end(assignment, spoilt(failure))
        if self._nodes.end:  # its sandbox may live: whoever goes on with the run looks for it
            await asyncio.Event().wait()
        return self._end(assignment, Cancelled(reason=why))

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Throw away what the policy does not keep: here what came home, on its node all that is left."""
        if assignment.token in self._kept_here and self._here is not None:
            await self._here.release(assignment, drop)
            return
        folders = set_scene(self._context, assignment).folders
        await throw_away(folders, drop)
        if (left := find_way_home(folders.root)).exists():
            await asyncio.to_thread(remove_if_possible, left)
        node = self._whereabouts.pop(assignment.token, None)
        if node is not None and not node.is_lost:
            with suppress(NodeLost, SandboxFailed):  # what can't be removed now is swept later
                await node.worker.call("release", encode(assignment), encode(drop))

    def expect(self, nodes: frozenset[str]) -> None:
        """Attempts are under way on these nodes: the others need not say what lives there."""
        self._attempts_at = nodes

    async def survivors(self) -> tuple[Survivor, ...]:
        """Ask every node that is there, and this machine where attempts were carried out here."""
        found: list[Survivor] = []

        async def ask(node: Node) -> None:
            left = await node.survivors()
            self._placement.found |= {survivor.token: node for survivor in left}
            self._nodes.orphaned.setdefault(node.name, set()).update(each.token for each in left)
            found.extend(left)

        await ask_every(self._nodes, ask, self._may_have_attempts, insist=True)
        if (here := self._find_here()) is not None:
            own = await here.survivors()
            self._kept_here = {survivor.token for survivor in own}
            self._treasury.refuse_others(len(own))
            found += own
        return tuple(found)

    async def reap(self, keep: frozenset[str]) -> int:
        """Tell every node that is there."""
        removed: list[int] = []
        for awaited in self._nodes.orphaned.values():
            awaited.intersection_update(keep)

        async def ask(node: Node) -> None:
            removed.append(await node.reap(keep))

        await ask_every(self._nodes, ask, self._may_have_attempts)
        if (here := self._find_here()) is not None:
            removed.append(await here.reap(keep))
        return sum(removed)

    async def close(self) -> None:
        """End the workers; what was not released stays where it is."""
        if self._briefing is not None:
            self._briefing.cancel()
            await wait_out(self._briefing)
        try:
            await self._nodes.close()
        finally:
            try:
                await self._treasury.close()
            finally:
                if self._here is not None:
                    await self._here.close()

    async def _examine(self) -> tuple[Check, ...]:
        await self._nodes.join()
        checks = [
            Check(name="node", passed=False, message=why, node=name)
            for name, why in sorted(self._nodes.problems.items())
        ]
        checks += name_namesakes(self._nodes.there)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(examine_node(node)) for node in self._nodes.joined]
        checks += [check for each in asked for check in each.result()]
        return tuple(checks) or (tell_nobody(self._context),)

    async def _begin(self, worker: RayWorker, node: str, hello: WorkerHello) -> Begun:
        """Have a worker begin: what it lacks is delivered, then it hears of the run, and its secrets."""
        if hello.version != VERSION:
            told = f"has labrunner {hello.version}, and this is {VERSION}: install the same on every node"
            raise SandboxFailed("node_version", told)
        briefing = await self._prepare()
        await briefing.deliver(worker)
        charge = msgspec.structs.replace(briefing.charge, node=node)
        sealed = seal(briefing.secrets, hello.key)
        begun = decode(await worker.call("begin", encode(charge), sealed), Begun)
        await self._treasury.attend(node, worker)
        return begun

    async def _prepare(self) -> Briefing:
        """Look once at what every node needs. Raises InputError for what is not there any more."""
        if self._briefing is None:
            self._briefing = asyncio.ensure_future(self._brief())
        return await asyncio.shield(self._briefing)

    async def _brief(self) -> Briefing:
        cargo = None if self._code is None else await self._code.pack()
        return await asyncio.to_thread(Briefing.of, self._context, cargo)

    async def _carry_out(self, where: Where, assignment: Assignment, notes: Notes) -> Completion:
        """Hear of an attempt to its end. Raises NodeLost."""
        node, token = where.node, assignment.token
        self._whereabouts[token] = node
        node.calls.add(token)
        notes.placed(token, node.name)
        try:
            completion = await self._hear(where, assignment, notes)
            self._losses.forget(assignment.trial_id)
            return completion
        except NodeLost as lost:
            self._nodes.lose(node, str(lost))  # while this is one of its calls: so it is awaited
            raise
        except NodeFull as full:
            self._nodes.shut(node, str(full))
            raise
        except (asyncio.CancelledError, AttemptFailed) as ended:
            if (cancelled := await wait_out(asyncio.ensure_future(self._cancel(node, token)))) is not None:
                raise cancelled from ended
            raise
        finally:
            if not node.is_lost:
                node.calls.discard(token)
            self._nodes.give_back(node, token)

    async def _hear(self, where: Where, assignment: Assignment, notes: Notes) -> Completion:
        node, scene = where.node, set_scene(self._context, assignment)
        async with (
            coming_home(scene.folders.root, where.before, self._masker, self._treasury.lends) as home,
            self._lender.serve(partial(self._grant, node, assignment.token)) as desk,
        ):
            if where.survivor is None:
                await send_tapes(node.worker, scene)
            ear = Ear(
                node=node,
                order=AttemptOrder(assignment=assignment, survivor=where.survivor),
                work=where.work,
                notes=notes,
                home=home,
                desk=desk,
                nodes=self._nodes,
            )
            return await ear.hear()

    async def _cancel(self, node: Node, token: str) -> None:
        """Have a node end an attempt. A worker that does not is ended itself, and the next one sweeps."""
        node.calls.discard(token)  # nobody goes on with it
        self._nodes.orphaned.get(node.name, set()).discard(token)
        try:
            async with asyncio.timeout(self._nodes.pace.cancel_s):
                await node.worker.call("cancel", token)
        except TimeoutError:
            self._nodes.lose(node, f"it did not end an attempt within {self._nodes.pace.cancel_s:g} s")
        except (NodeLost, SandboxFailed):
            return  # its worker is gone, or says that nothing of it is left to be ended

    async def _grant(self, node: Node, token: str, seq: int) -> None:
        """Tell an attempt that it has a connection; a node that can't be told is lost, and its calls end."""
        try:
            await node.worker.tell("acknowledge", token, seq)
        except NodeLost as lost:
            self._nodes.lose(node, str(lost))

    async def _find_again(self, lost: Where, assignment: Assignment) -> Where | None:
        """Where an attempt is gone on with whose node was lost. Raises SandboxFailed if it is at fault."""
        there = await self._placement.find_again(lost, assignment)
        if there is not None or self._nodes.end:
            return there
        trial_id = assignment.trial_id
        if self._losses.add(trial_id, nodes=self._nodes.count):
            told = f"the node that it ran on was lost, {self._losses.count(trial_id)} times in a row"
            raise SandboxFailed(NODE_LOST, f"{told}: perhaps the trial ends them")
        return await self._placement.send_again(lost, assignment)

    async def _find_room(self, lost: Where, assignment: Assignment, full: NodeFull) -> Where | None:
        """The same where its node's disk was full: the trial is at fault if it is the one that fills them."""
        if self._losses.add(assignment.trial_id, nodes=self._nodes.count):
            told = (
                f"its node's disk was full, {self._losses.count(assignment.trial_id)} times in a row: {full}"
            )
            raise SandboxFailed(DISK, told)
        return await self._placement.send_again(lost, assignment)

    def _end(self, assignment: Assignment, end: AttemptEnd) -> Completion:
        node = self._whereabouts.get(assignment.token)
        return complete_unheard(assignment, end, None if node is None else node.name)

    def _may_have_attempts(self, node: str) -> bool:
        return self._attempts_at is None or node in self._attempts_at

    def _find_here(self) -> Executor | None:
        """This machine's own executor, where an earlier owner of the run left sandboxes here."""
        if self._here is None and any(self._context.trials_dir.glob("*/*/ctl")):
            made = LocalExecutor(self._context, self._make) if self._code is None else self._code.make_here()
            self._here = made
        return self._here
