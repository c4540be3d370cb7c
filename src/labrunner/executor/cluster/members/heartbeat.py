"""Work that is waited for as long as what it needs is felt to live.

A worker that is stopped, or whose machine hangs, ends no call by itself.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, NoReturn, TypeVar

from labrunner.executor.cluster.members.node import NodePace
from labrunner.executor.cluster.rayport import NodeLost, RayWorker

T = TypeVar("T")


async def while_answering(work: Awaitable[T], worker: RayWorker, pace: NodePace) -> T:
    """What comes of work that needs a worker. Raises NodeLost as soon as that answers nothing any more."""
    return await while_felt(work, _feel(worker, pace))


async def while_felt(work: Awaitable[T], feel: Coroutine[Any, Any, NoReturn]) -> T:
    """What comes of work; or, if that comes first, what is raised once what it needs is felt no more."""
    doing, feeling = asyncio.ensure_future(work), asyncio.ensure_future(feel)
    try:
        await asyncio.wait({doing, feeling}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else feeling.result()
    finally:
        for task in (doing, feeling):
            task.cancel()
        await asyncio.wait({doing, feeling})
        for task in (doing, feeling):
            task.cancelled() or task.exception()  # seen: it is told by whoever comes first


async def _feel(worker: RayWorker, pace: NodePace) -> NoReturn:
    while True:
        await asyncio.sleep(pace.ping_s)
        try:
            async with asyncio.timeout(pace.silence_s):
                await worker.tell("ping")
        except TimeoutError:
            raise NodeLost(f"it has answered nothing for {pace.silence_s:g} s") from None
