"""Nodes that could not be used: why, and when each is tried again; each time twice as late.

Rule: where several have one name, each waits for itself, and what is wrong is told of the one tried last.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence

from labrunner.executor.cluster.members.node import Node, NodePace
from labrunner.executor.cluster.rayport import RayNode


class Unusable:
    """What is known of them."""

    def __init__(self, pace: NodePace) -> None:
        """Know nothing against any."""
        self._pace = pace
        self._not_before: dict[str, tuple[float, float]] = {}
        """By id: a node that is started again is another one."""
        self._whose: dict[str, str] = {}
        """Of which node a name's problem is told, by id."""
        self._preferred: dict[str, str] = {}
        """Of each name the node that had a worker last, by id: what lives of the run lives there."""
        self.problems: dict[str, str] = {}
        """By name."""

    def add(self, node: RayNode | Node, why: str) -> None:
        """A node was tried, and can't be used now."""
        self.tell(node, why)
        _, wait = self._not_before.get(node.id, (0.0, self._pace.again_s))
        self._not_before[node.id] = (time.monotonic() + wait, min(2 * wait, self._pace.latest_s))

    def tell(self, node: RayNode | Node, why: str) -> None:
        """A node is not used, and may be tried again at once."""
        self.problems[node.name], self._whose[node.name] = why, node.id

    def prefer(self, node: Node) -> None:
        """A node is used in the place of others of its name: what is wrong with them is not told of it."""
        self._preferred[node.name] = node.id
        if self._whose.get(node.name) != node.id:
            self.problems.pop(node.name, None)

    def forget(self, node: Node) -> None:
        """A node has shown that it can be used."""
        self.problems.pop(node.name, None)
        self._not_before.pop(node.id, None)

    def is_due(self, node: RayNode | Node) -> bool:
        """Whether a node may be tried now."""
        return self._due_at(node) <= time.monotonic()

    def choose(self, nodes: Iterable[RayNode]) -> RayNode | None:
        """Which of several nodes of one name is to be tried now: who had a worker, else who failed least."""

        def rank(node: RayNode) -> tuple[bool, float, str]:
            # In the end by id: the next owner of the run looks for what lives there on the same one.
            return node.id != self._preferred.get(node.name), self._due_at(node), node.id

        return min(filter(self.is_due, nodes), key=rank, default=None)

    async def until_due(self, groups: Iterable[Sequence[RayNode]]) -> None:
        """Wait until one of each of these may be tried."""
        due = max((min(map(self._due_at, nodes), default=0.0) for nodes in groups), default=0.0)
        await asyncio.sleep(max(0.0, due - time.monotonic()))

    def _due_at(self, node: RayNode | Node) -> float:
        return self._not_before.get(node.id, (0.0, 0.0))[0]
