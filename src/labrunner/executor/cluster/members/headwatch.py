"""Whether the cluster's head still answers: without it nobody joins, and no death is heard of.

Rule: Ray ends this process when its head has been gone for a minute, in the midst of whatever it does. All
that needs the cluster is ended in order before: at preflight, while nodes are asked and opened, in a run.
Nothing is said of what was under way there, and who goes on with the run looks for it.
"""

import asyncio
import time

from labrunner.executor.cluster.members.node import NodePace
from labrunner.executor.cluster.rayport import ClusterPort, NodeLost, RayNode
from labrunner.experiment.options.table import flag


class HeadLost(Exception):
    """The head has said nothing for too long."""

    def advise(self) -> str:
        """The same with what is to be done about a run that has begun."""
        there = "once there is a cluster again: lab continue"
        return f"{self}; {there}, or on this machine: lab continue {flag('executor')} local"


class HeadWatch:
    """When the head of one cluster was last heard."""

    def __init__(self, port: ClusterPort, pace: NodePace) -> None:
        """Ask nothing yet."""
        self._port, self._pace = port, pace
        self._silent_since: float | None = None
        self._failed_at = 0.0

    async def list_nodes(self) -> tuple[RayNode, ...]:
        """The nodes that live. Raises NodeLost while it says nothing, HeadLost when that took too long."""
        began, most = time.monotonic(), self._pace.head_s
        is_known = began - self._failed_at < most  # else nobody has looked meanwhile
        since = self._silent_since if self._silent_since is not None and is_known else began
        try:
            async with asyncio.timeout(since + most - began):
                nodes = await self._port.list_nodes()
        except (NodeLost, TimeoutError) as error:
            self._silent_since, self._failed_at = since, time.monotonic()
            if self._failed_at - since < most:
                raise NodeLost(str(error) or "it says nothing") from error
            raise HeadLost(f"the cluster's head has not answered for {most:.0f} s") from error
        self._silent_since = None
        return nodes
