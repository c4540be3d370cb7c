"""Where an attempt is carried out: on a node with a free place, or where something of it lives.

Rule: work that lies here whole, of an agent that had ended, is not lost with a node that it was sent to for
its grader: it is sent again, to any, unless the grader had begun and may not be repeated.
"""

import asyncio
from dataclasses import dataclass

from labrunner.executor.cluster.briefing import send_folder
from labrunner.executor.cluster.homecoming import Before
from labrunner.executor.cluster.members.node import Node
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.members.rounds import ask_next
from labrunner.executor.cluster.rayport import NodeLost
from labrunner.sandbox.door import Survivor
from labrunner.trial.assignment import Assignment, TrialContext, set_scene


@dataclass(slots=True, kw_only=True)
class WholeWork:
    """What lies here of an attempt whose agent had ended."""

    standing: Survivor
    has_grader_begun: bool = False
    """Whether it has, on any node that it was sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where an attempt is, and how it is gone on with there."""

    node: Node
    survivor: Survivor | None
    work: WholeWork | None = None
    is_new: bool = False
    """Whether nothing of it was anywhere before."""

    @property
    def before(self) -> Before:
        """What becomes of what lies here."""
        return "aside" if self.is_new else "replaced"


class Placement:
    """Finds places for the attempts of a run."""

    def __init__(self, context: TrialContext, nodes: Nodes) -> None:
        """Take the run and its nodes."""
        self._context, self._nodes = context, nodes
        self.found: dict[str, Node] = {}
        """Nodes of survivors, by token."""

    async def find(self, assignment: Assignment, survivor: Survivor | None) -> Where | None:
        """A node with a free place; of a survivor, that where it lives. None where it is nowhere."""
        if survivor is None:
            return Where(node=await self._take(assignment), survivor=None, is_new=True)
        if (node := self.found.get(survivor.token)) is not None:
            there = Where(node=node, survivor=survivor)
            if node.is_lost:  # since it was asked what lives there
                return await self.find_again(there, assignment)
            node.taken.add(assignment.token)
            self._nodes.orphaned[node.name].discard(assignment.token)
            return there
        if survivor.ended is None or not set_scene(self._context, assignment).folders.root.is_dir():
            return None
        return await self._send(WholeWork(standing=survivor), assignment)

    async def find_again(self, lost: Where, assignment: Assignment) -> Where | None:
        """What lives of an attempt whose worker died, where its node has another; None where nothing does."""
        name = lost.node.name
        try:
            async with asyncio.timeout(self._nodes.pace.rejoin_s):
                found = await ask_next(self._nodes, name)
        except TimeoutError:
            return None
        else:
            return None if found is None else self._choose_survivor(*found, lost.work, assignment)
        finally:
            self._nodes.orphaned.get(name, set()).discard(assignment.token)

    async def send_again(self, lost: Where, assignment: Assignment) -> Where | None:
        """The same for work that lies here whole: on any node. None where it may not be graded once more."""
        work = lost.work
        if work is None or (work.has_grader_begun and not self._is_repeatable(assignment)):
            return None
        return await self._send(work, assignment)

    async def _send(self, work: WholeWork, assignment: Assignment) -> Where:
        root = set_scene(self._context, assignment).folders.root
        while True:
            node = await self._take(assignment)
            try:
                await send_folder(node.worker, assignment, root)
            except NodeLost as lost:
                self._nodes.lose(node, str(lost))
            except BaseException:
                self._nodes.give_back(node, assignment.token)
                raise
            if not node.is_lost:
                return Where(node=node, survivor=work.standing, work=work)

    async def _take(self, assignment: Assignment) -> Node:
        await self._nodes.open()
        while (node := self._nodes.take(assignment.token)) is None:
            await self._nodes.wait_for_change()
        return node

    def _choose_survivor(
        self, node: Node, left: tuple[Survivor, ...], work: WholeWork | None, assignment: Assignment
    ) -> Where | None:
        is_repeatable = self._is_repeatable(assignment)
        for survivor in left:
            if survivor.token == assignment.token and survivor.is_adoptable(repeatable_grader=is_repeatable):
                node.taken.add(assignment.token)
                return Where(node=node, survivor=survivor, work=work)
        return None

    def _is_repeatable(self, assignment: Assignment) -> bool:
        return self._context.experiment.tasks[assignment.slot.task_idx].grader.repeatable
