"""A real worker behind the port to Ray: whoever waits for it hears what becomes of it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from labrunner.executor.cluster import rayport
from labrunner.executor.cluster.rayport import NodeLost, RayWorker
from labrunner.executor.cluster.tidings import WorkerHello, decode
from tests.kit.executor.rayclusters import ADDRESS, share_cluster, shared_node

pytestmark = pytest.mark.timeout(200)  # a cluster is a dozen processes of Python
SOON_S = 20.0
"""Far less than it takes to notice that a worker is silent."""


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[RayWorker]:
    share_cluster()
    await rayport.connect(os.environ[ADDRESS])
    (node,) = await rayport.list_nodes()
    made = rayport.start_worker(node)
    yield made
    made.kill()


async def wait_for_it(worker: RayWorker) -> "list[asyncio.Task[object]]":
    """Have many wait for what never comes."""
    await worker.call("introduce")
    waiting: list[asyncio.Task[object]] = [asyncio.create_task(worker.tell("stay")) for _ in range(50)]
    await worker.tell("ping")
    return waiting


async def hear_of_the_loss(waiting: "list[asyncio.Task[object]]") -> set[str]:
    async with asyncio.timeout(SOON_S):
        ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(end) for end in ends} == {NodeLost}
    return {str(end) for end in ends}


async def test_everybody_who_waits_hears_at_once_that_a_worker_died(worker: RayWorker) -> None:
    waiting = await wait_for_it(worker)
    (pid,) = shared_node().pids("ray::Worker")
    os.kill(pid, signal.SIGKILL)
    await hear_of_the_loss(waiting)
    with pytest.raises(NodeLost):
        await worker.tell("ping")


async def test_everybody_who_waits_hears_at_once_that_a_worker_was_ended(worker: RayWorker) -> None:
    waiting = await wait_for_it(worker)
    worker.kill()
    assert await hear_of_the_loss(waiting) == {"its worker was ended"}
    with pytest.raises(NodeLost, match="its worker was ended"):
        await worker.tell("ping")


async def test_a_question_that_breaks_at_a_worker_leaves_it_to_the_others(worker: RayWorker) -> None:
    hello = decode(await worker.call("introduce"), WorkerHello)
    assert hello.key
    with pytest.raises(NodeLost, match=r"broke over 'carry_out': \w+Error in tidings\.py, line \d+"):
        await anext(worker.stream("carry_out", b"no order"))
    with pytest.raises(NodeLost, match="broke over 'lend': AttemptFailed"):
        await worker.tell("lend", b"")
    await worker.tell("ping")
