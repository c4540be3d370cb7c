"""How a node comes to have a worker that has begun."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from labrunner.executor.cluster.members.heartbeat import while_answering
from labrunner.executor.cluster.members.node import Node, NodePace
from labrunner.executor.cluster.rayport import ClusterPort, NodeLost, RayNode, RayWorker
from labrunner.executor.cluster.tidings import Begun, WorkerHello, decode

STARTS: Final = 3
"""So many workers in a row may die before they have begun."""

Begin = Callable[[RayWorker, str, WorkerHello], Awaitable[Begun]]
"""Has a worker begin to work for the run: everything that it needs is delivered first."""


async def have_begun(node: RayNode, port: ClusterPort, begin: Begin, pace: NodePace) -> Node:
    """Have a worker begin; one that dies over it is followed by another, a few times.

    Raises NodeLost, TimeoutError, and whatever `begin` raises.
    """
    for _ in range(STARTS - 1):
        with suppress(NodeLost):
            return await _begin_at(node, port, begin, pace)
    return await _begin_at(node, port, begin, pace)


async def _begin_at(node: RayNode, port: ClusterPort, begin: Begin, pace: NodePace) -> Node:
    worker = port.start_worker(node)
    try:
        async with asyncio.timeout(pace.start_s):
            hello = decode(await worker.call("introduce"), WorkerHello)
        begun = await while_answering(begin(worker, node.name, hello), worker, pace)
    except BaseException:
        worker.kill()
        raise
    return Node(id=node.id, name=node.name, worker=worker, begun=begun)
