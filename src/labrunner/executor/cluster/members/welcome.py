"""How a node comes to have a worker that has begun."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from labrunner.errors import LabError, SandboxFailed
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

    Raises NodeLost, TimeoutError and LabError.
    """
    for _ in range(STARTS - 1):
        with suppress(NodeLost):
            return await _begin_at(node, port, begin, pace)
    return await _begin_at(node, port, begin, pace)


def explain(error: NodeLost | TimeoutError | LabError, pace: NodePace) -> str:
    """Why no worker has begun."""
    match error:
        case NodeLost():
            return f"no worker could be started: {error}; is labrunner installed there?"
        case TimeoutError():
            return f"no worker was started within {pace.start_s:.0f} s"
        case _:
            return str(error)


async def _begin_at(node: RayNode, port: ClusterPort, begin: Begin, pace: NodePace) -> Node:
    worker = port.start_worker(node)
    try:
        async with asyncio.timeout(pace.start_s):
            hello = _read(await worker.call("introduce"))
        begun = await while_answering(_send_and_begin(begin, worker, node.name, hello), worker, pace)
    except BaseException:
        worker.kill()
        raise
    return Node(id=node.id, name=node.name, worker=worker, begun=begun)


def _read(answer: bytes) -> WorkerHello:
    try:
        return decode(answer, WorkerHello)
    except ValueError as error:
        told = f"its worker says who it is in words that are not known here ({error})"
        raise SandboxFailed("node_version", f"{told}: install the same labrunner on every node") from error


async def _send_and_begin(begin: Begin, worker: RayWorker, node: str, hello: WorkerHello) -> Begun:
    try:
        return await begin(worker, node, hello)
    except OSError as error:  # on this side: what a node can't do is answered, not raised
        raise SandboxFailed("unsent", f"what it needs can't be read here any more: {error}") from error
