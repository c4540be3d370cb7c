"""Which nodes Ray has for a run, as far as was last seen: those with the labels that are asked for.

Rule: a name may stand there more than once. Ray lists a node that was killed and started again twice until it
gives the dead one up, and nobody keeps people from giving two nodes one name.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, TypeVar

from labrunner.executor.cluster.members.headwatch import HeadWatch
from labrunner.executor.cluster.members.heartbeat import while_felt
from labrunner.executor.cluster.members.node import NodePace
from labrunner.executor.cluster.rayport import ClusterPort, NodeLost, RayNode
from labrunner.experiment.run_policy import ExecutorPlan

T = TypeVar("T")


class Census:
    """The nodes that are there, by name."""

    def __init__(self, plan: ExecutorPlan, port: ClusterPort, pace: NodePace) -> None:
        """Look at nothing yet."""
        self._plan, self._port, self._pace = plan, port, pace
        self._head = HeadWatch(port, pace)
        self._there: Mapping[str, Sequence[RayNode]] = {}

    @property
    def nodes(self) -> tuple[RayNode, ...]:
        """All of them."""
        return tuple(node for nodes in self._there.values() for node in nodes)

    @property
    def names(self) -> frozenset[str]:
        """The names that they have."""
        return frozenset(self._there)

    def find(self, name: str) -> Sequence[RayNode]:
        """Those of a name."""
        return self._there.get(name, ())

    async def while_heard(self, work: Callable[[], Awaitable[T]]) -> T:
        """What comes of work that needs the cluster, which is joined first.

        Raises InputError and SandboxFailed where there is none, HeadLost as soon as there is none any more.
        """
        await self._port.connect(self._plan.address)
        return await while_felt(work(), self._feel())

    async def look(self) -> None:
        """See anew which there are. Raises NodeLost while the head says nothing, HeadLost after too long."""
        there: dict[str, list[RayNode]] = defaultdict(list)
        for node in await self._head.list_nodes():
            if all(node.labels.get(name) == value for name, value in self._plan.labels.items()):
                there[node.name].append(node)
        self._there = there

    def close(self) -> None:
        """Nobody will be there any more."""
        self._there = {}

    async def _feel(self) -> NoReturn:
        while True:
            await asyncio.sleep(self._pace.look_s)
            with suppress(NodeLost):  # not for too long yet
                await self.look()
