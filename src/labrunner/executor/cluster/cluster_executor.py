"""Carrying out attempts on the nodes of a Ray cluster.

Rules: everything that a run needs to be right stays here: what is durable, what is committed, what is owed. A
worker that dies under an attempt is followed by another on its node, which goes on with what lives there, as
the next owner of a run does; where the node is gone, or nothing lives, the attempt is cut off and its slot
owed. An attempt that loses its node again and again is at fault itself.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

import msgspec

from labrunner.errors import AttemptFailed, SandboxFailed
from labrunner.executor.cargo import OwnCode
from labrunner.executor.cluster import rayport
from labrunner.executor.cluster.briefing import Briefing, send_folder, send_tapes
from labrunner.executor.cluster.hearing.lending import Desk, Lender
from labrunner.executor.cluster.hearing.unheard import complete_unheard
from labrunner.executor.cluster.homecoming import Before, Homecoming
from labrunner.executor.cluster.losses import Losses
from labrunner.executor.cluster.nodechecks import examine_node, refuse_uncarried, tell_nobody
from labrunner.executor.cluster.nodes import NODE_PACE, Node, NodePace, Nodes
from labrunner.executor.cluster.onnode.nodecall import CANCELLED
from labrunner.executor.cluster.rayport import ClusterPort, NodeLost, RayWorker
from labrunner.executor.cluster.strongbox import seal
from labrunner.executor.cluster.tidings import (
    AttemptOrder,
    BarrierTold,
    Begun,
    ConnectionAsked,
    ConnectionLeft,
    Ended,
    EventTold,
    GoneTold,
    GraderTold,
    NodeFailure,
    PieceTold,
    WorkerHello,
    decode,
    decode_told,
    encode,
)
from labrunner.executor.door import Discard, Executor
from labrunner.executor.local import LocalExecutor
from labrunner.executor.release import throw_away
from labrunner.files.uninterrupted import wait_out
from labrunner.records.completion import AttemptEnd, Cancelled, Completion
from labrunner.sandbox.door import Check, SandboxMaker, Survivor
from labrunner.trial.assignment import Assignment, Notes, TrialContext, set_scene
from labrunner.trial.classification import spoilt
from labrunner.version import VERSION

NODE_LOST: Final = "node_lost"
WORK_GONE: Final = "work_gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    """Where an attempt is, and how it is gone on with there."""

    node: Node
    survivor: Survivor | None
    before: Before


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
        self._found: dict[str, Node] = {}
        """Nodes of survivors, by token."""
        self._whereabouts: dict[str, Node] = {}
        """Nodes of attempts that are not released."""
        self._lender = Lender()
        self._losses = Losses()
        self._code: OwnCode | None = None
        """Set where attempts are carried out by code that is not ours."""
        self._here: Executor | None = None
        """Set where an earlier owner of the run carried attempts out on this machine."""
        self._kept_here: set[str] = set()

    def take_code(self, code: OwnCode) -> None:
        """Have attempts carried out by this code, on nodes."""
        self._code = code

    @property
    def places(self) -> int:
        """As many as the nodes have that are open."""
        return self._nodes.places

    @property
    def trouble(self) -> str:
        """Why nodes are not used."""
        problems = [f"{name}: {why}" for name, why in sorted(self._nodes.problems.items())]
        if self.places:
            return ""
        return f"no node can be used: {'; '.join(problems)}" if problems else "waiting for a node to join"

    async def open(self, changed: Callable[[], None]) -> None:
        """Use every node that can be used."""
        self._nodes.call_on_change(changed)
        await self._nodes.open()

    async def preflight(self) -> tuple[Check, ...]:
        """Ask every node; what can't be had on a cluster is refused first."""
        refused = tuple(refuse_uncarried(self._context))
        if refused:
            return refused
        try:
            await self._nodes.join()
        except SandboxFailed as failure:
            return (Check(name="cluster", passed=False, message=str(failure)),)
        checks = [
            Check(name="node", passed=False, message=why, node=name)
            for name, why in sorted(self._nodes.problems.items())
        ]
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(examine_node(node)) for node in self._nodes.joined]
        checks += [check for each in asked for check in each.result()]
        return tuple(checks) or (tell_nobody(self._context),)

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
        is_lost = False
        try:
            where = await self._find_place(assignment, survivor)
            while where is not None:
                try:
                    return await self._carry_out(where, assignment, notes)
                except NodeLost:
                    is_lost = True
                    where = await self._find_again(where.node, assignment)
        except AttemptFailed as failure:
            return self._end(assignment, spoilt(failure))
        return self._cut_off(assignment, is_lost=is_lost)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Throw away what the policy does not keep: here what came home, on its node all that is left."""
        if assignment.token in self._kept_here and self._here is not None:
            await self._here.release(assignment, drop)
            return
        await throw_away(set_scene(self._context, assignment).folders, drop)
        node = self._whereabouts.pop(assignment.token, None)
        if node is not None and not node.is_lost:
            with suppress(NodeLost, SandboxFailed):  # what can't be removed now is swept later
                await node.worker.call("release", encode(assignment), encode(drop))

    async def survivors(self) -> tuple[Survivor, ...]:
        """Ask every node that is there, and this machine where attempts were carried out here."""
        found: list[Survivor] = []

        async def ask(node: Node) -> None:
            left = await node.survivors()
            self._found |= {survivor.token: node for survivor in left}
            self._nodes.orphaned.setdefault(node.name, set()).update(each.token for each in left)
            found.extend(left)

        await self._nodes.ask_every(ask, insist=True)
        if (here := self._find_here()) is not None:
            own = await here.survivors()
            self._kept_here = {survivor.token for survivor in own}
            found += own
        return tuple(found)

    async def reap(self, keep: frozenset[str]) -> int:
        """Tell every node that is there."""
        removed: list[int] = []
        for awaited in self._nodes.orphaned.values():
            awaited.intersection_update(keep)

        async def ask(node: Node) -> None:
            removed.append(await node.reap(keep))

        await self._nodes.ask_every(ask)
        if (here := self._find_here()) is not None:
            removed.append(await here.reap(keep))
        return sum(removed)

    async def close(self) -> None:
        """End the workers; what was not released stays where it is."""
        if self._briefing is not None:
            self._briefing.cancel()
        await self._nodes.close()
        if self._here is not None:
            await self._here.close()

    async def _begin(self, worker: RayWorker, node: str, hello: WorkerHello) -> Begun:
        """Have a worker begin: what it lacks is delivered, then it hears of the run, and its secrets."""
        if hello.version != VERSION:
            told = f"has labrunner {hello.version}, and this is {VERSION}: install the same on every node"
            raise SandboxFailed("node_version", told)
        briefing = await self._prepare()
        await briefing.deliver(worker)
        charge = msgspec.structs.replace(briefing.charge, node=node)
        sealed = seal(briefing.secrets, hello.key)
        return decode(await worker.call("begin", encode(charge), sealed), Begun)

    async def _prepare(self) -> Briefing:
        """Look once at what every node needs. Raises InputError for what is not there any more."""
        if self._briefing is None:
            self._briefing = asyncio.ensure_future(asyncio.to_thread(self._brief))
        return await asyncio.shield(self._briefing)

    def _brief(self) -> Briefing:
        return Briefing.of(self._context, None if self._code is None else self._code.pack())

    async def _find_place(self, assignment: Assignment, survivor: Survivor | None) -> _Where | None:
        """A node with a free place; of a survivor, that where it lives. None where it is nowhere."""
        if survivor is None:
            return _Where(node=await self._take(assignment), survivor=None, before="aside")
        if (node := self._found.get(survivor.token)) is not None:
            if node.is_lost:  # since it was asked what lives there
                return await self._find_again(node, assignment)
            node.taken.add(assignment.token)
            self._nodes.orphaned[node.name].discard(assignment.token)
            return _Where(node=node, survivor=survivor, before="gone")
        root = set_scene(self._context, assignment).folders.root
        if survivor.ended is None or not root.is_dir():
            return None
        node = await self._take(assignment)
        try:
            await send_folder(node.worker, assignment, root)
        except NodeLost as lost:
            self._nodes.lose(node, str(lost))
            return await self._find_place(assignment, survivor)
        except BaseException:
            self._nodes.give_back(node, assignment.token)
            raise
        return _Where(node=node, survivor=survivor, before="replaced")

    async def _take(self, assignment: Assignment) -> Node:
        await self._nodes.open()
        while (node := self._nodes.take(assignment.token)) is None:
            await self._nodes.wait_for_change()
        return node

    async def _carry_out(self, where: _Where, assignment: Assignment, notes: Notes) -> Completion:
        """Hear of an attempt to its end. Raises NodeLost."""
        node, token = where.node, assignment.token
        self._whereabouts[token] = node
        node.calls.add(token)
        notes.placed(token, node.name)
        home = Homecoming(set_scene(self._context, assignment).folders.root, where.before)
        try:
            async with self._lender.serve(partial(node.worker.tell, "acknowledge", token)) as desk:
                return await self._hear(where, assignment, notes, home, desk)
        except NodeLost as lost:
            self._nodes.lose(node, str(lost))  # while this is one of its calls: so it is awaited
            raise
        except asyncio.CancelledError:
            await wait_out(asyncio.ensure_future(_cancel(node, token)))
            raise
        except AttemptFailed:
            await _cancel(node, token)
            raise
        finally:
            home.close()
            if not node.is_lost:
                node.calls.discard(token)
            self._nodes.give_back(node, token)

    async def _hear(
        self, where: _Where, assignment: Assignment, notes: Notes, home: Homecoming, desk: Desk
    ) -> Completion:
        node, token = where.node, assignment.token
        if where.survivor is None:
            await send_tapes(node.worker, set_scene(self._context, assignment))
        order = AttemptOrder(assignment=assignment, survivor=where.survivor)
        async for data in node.worker.stream("carry_out", encode(order)):
            match decode_told(data):
                case PieceTold(piece=piece, digest=told, seq=asked):
                    await asyncio.to_thread(home.take, piece, told)
                    if asked is not None:
                        await node.worker.tell("acknowledge", token, asked)
                case ConnectionAsked() | ConnectionLeft() as connection:
                    await desk.hear(connection)
                case Ended(completion=completion):
                    return await self._bring_home(completion, node, assignment, home)
                case NodeFailure(reason=reason, message=message):
                    if reason == CANCELLED:
                        raise NodeLost("its worker was told to end it")
                    raise SandboxFailed(reason, f"node {node.name}: {message}")
                case note:
                    await self._note(note, node, assignment, notes)
        raise NodeLost("its worker said no more of it")

    async def _note(
        self,
        told: BarrierTold | GraderTold | GoneTold | EventTold,
        node: Node,
        assignment: Assignment,
        notes: Notes,
    ) -> None:
        """Hand a note on; the node hears when it is durable."""
        token = assignment.token
        match told:
            case BarrierTold(seq=seq, note=note):
                await notes.barrier_held(token, msgspec.structs.replace(note, node=node.name))
                await node.worker.tell("acknowledge", token, seq)
            case GraderTold(seq=seq):
                await notes.grader_starting(token)
                await node.worker.tell("acknowledge", token, seq)
            case GoneTold():
                notes.sandbox_gone(token)
                self._nodes.give_back(node, token)
            case EventTold(seq=seq, line=line):
                notes.add_event(assignment, seq, line)
            case other:
                assert_never(other)

    async def _bring_home(
        self, completion: Completion, node: Node, assignment: Assignment, home: Homecoming
    ) -> Completion:
        if completion.token != assignment.token:
            raise SandboxFailed(
                "node_confused", f"node {node.name} told of another attempt than was asked for"
            )
        await asyncio.to_thread(home.finish, completion)
        self._losses.forget(assignment.trial_id)
        node.calls.discard(assignment.token)
        self._nodes.orphaned.get(node.name, set()).discard(assignment.token)
        return completion

    async def _find_again(self, lost: Node, assignment: Assignment) -> _Where | None:
        """What lives of an attempt whose worker died, where its node has another; None where nothing does."""
        try:
            async with asyncio.timeout(self._nodes.pace.rejoin_s):
                found = await self._nodes.ask_next(lost.name)
            return None if found is None else self._choose_survivor(*found, assignment)
        except TimeoutError:
            return None
        finally:
            self._nodes.orphaned.get(lost.name, set()).discard(assignment.token)

    def _choose_survivor(
        self, node: Node, left: tuple[Survivor, ...], assignment: Assignment
    ) -> _Where | None:
        is_repeatable = self._context.experiment.tasks[assignment.slot.task_idx].grader.repeatable
        for survivor in left:
            if survivor.token == assignment.token and survivor.is_adoptable(repeatable_grader=is_repeatable):
                node.taken.add(assignment.token)
                return _Where(node=node, survivor=survivor, before="gone")
        return None

    def _cut_off(self, assignment: Assignment, *, is_lost: bool) -> Completion:
        """What is told of an attempt that nobody can go on with."""
        trial_id = assignment.trial_id
        if not (is_lost and self._losses.add(trial_id, nodes=self._nodes.count)):
            return self._end(assignment, Cancelled(reason=NODE_LOST))
        told = f"the node that it ran on was lost, {self._losses.count(trial_id)} times in a row"
        return self._end(assignment, spoilt(SandboxFailed(NODE_LOST, f"{told}: perhaps the trial ends them")))

    def _end(self, assignment: Assignment, end: AttemptEnd) -> Completion:
        node = self._whereabouts.get(assignment.token)
        return complete_unheard(assignment, end, None if node is None else node.name)

    def _find_here(self) -> Executor | None:
        """This machine's own executor, where an earlier owner of the run left sandboxes here."""
        if self._here is None and any(self._context.trials_dir.glob("*/*/ctl")):
            made = LocalExecutor(self._context, self._make) if self._code is None else self._code.make_here()
            self._here = made
        return self._here


async def _cancel(node: Node, token: str) -> None:
    with suppress(NodeLost, SandboxFailed):
        await node.worker.call("cancel", token)
