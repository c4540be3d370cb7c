"""Where an attempt is carried out: on a node with a free place, or where something of it lives."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where an attempt is, and how it is gone on with there."""

    node: Node
    survivor: Survivor | None
    before: Before


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
            return Where(node=await self._take(assignment), survivor=None, before="aside")
        if (node := self.found.get(survivor.token)) is not None:
            if node.is_lost:  # since it was asked what lives there
                return await self.find_again(node, assignment)
            node.taken.add(assignment.token)
            self._nodes.orphaned[node.name].discard(assignment.token)
            return Where(node=node, survivor=survivor, before="gone")
        root = set_scene(self._context, assignment).folders.root
        if survivor.ended is None or not root.is_dir():
            return None
        node = await self._take(assignment)
        try:
            await send_folder(node.worker, assignment, root)
        except NodeLost as lost:
            self._nodes.lose(node, str(lost))
            return await self.find(assignment, survivor)
        except BaseException:
            self._nodes.give_back(node, assignment.token)
            raise
        return Where(node=node, survivor=survivor, before="replaced")

    async def _take(self, assignment: Assignment) -> Node:
        await self._nodes.open()
        while (node := self._nodes.take(assignment.token)) is None:
            await self._nodes.wait_for_change()
        return node

    async def find_again(self, lost: Node, assignment: Assignment) -> Where | None:
        """What lives of an attempt whose worker died, where its node has another; None where nothing does."""
        try:
            async with asyncio.timeout(self._nodes.pace.rejoin_s):
                found = await ask_next(self._nodes, lost.name)
            return None if found is None else self._choose_survivor(*found, assignment)
        except TimeoutError:
            return None
        finally:
            self._nodes.orphaned.get(lost.name, set()).discard(assignment.token)

    def _choose_survivor(
        self, node: Node, left: tuple[Survivor, ...], assignment: Assignment
    ) -> Where | None:
        is_repeatable = self._context.experiment.tasks[assignment.slot.task_idx].grader.repeatable
        for survivor in left:
            if survivor.token == assignment.token and survivor.is_adoptable(repeatable_grader=is_repeatable):
                node.taken.add(assignment.token)
                return Where(node=node, survivor=survivor, before="gone")
        return None
