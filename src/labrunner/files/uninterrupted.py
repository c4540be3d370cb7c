"""Waiting that a cancellation does not cut short: for work that has to be finished, or seen to end.

Rule: nobody else waits on after a cancellation; whoever must, does it here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
LOOK_S: Final = 0.5


async def wait_out(work: asyncio.Future[Any], *, until: float | None = None) -> asyncio.CancelledError | None:
    """Wait until work is done, or until a time on the monotonic clock; it is neither cancelled nor asked.

    A cancellation that came meanwhile is returned, for the caller to pass on.
    """
    cancelled: asyncio.CancelledError | None = None
    while not work.done() and (until is None or time.monotonic() < until):
        try:
            await asyncio.wait([work], timeout=None if until is None else max(0.0, until - time.monotonic()))
        except asyncio.CancelledError as told:
            cancelled = told
    return cancelled


async def see_out(work: Coroutine[Any, Any, T], give_up: Callable[[], object]) -> T:
    """Wait for work that nobody can cancel, such as a thread's.

    Who is cancelled meanwhile has it give up, and waits until it has come to its end.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        give_up()
        await wait_out(task)
        task.exception()  # whatever it was, it is seen
        raise
    return task.result()


async def insist(
    work: Coroutine[Any, Any, T],
    *,
    is_in_vain: Callable[[float], Awaitable[bool]],
    leaving_since: float | None = None,
) -> T:
    """Finish the work; a cancellation that came meanwhile is passed on afterwards.

    Who leaves, or was cancelled, does not wait for ever: once `is_in_vain` says, of the time when that began,
    that nothing will come of it, the work is cancelled, too.
    """
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        cancelled = await wait_out(task, until=time.monotonic() + LOOK_S) or cancelled
        if cancelled is not None:
            leaving_since = leaving_since or time.monotonic()
        if leaving_since is not None and not task.done():
            asked = asyncio.ensure_future(is_in_vain(leaving_since))
            cancelled = await wait_out(asked) or cancelled
            if asked.result():
                task.cancel()
    if cancelled is not None and not task.cancelled() and task.exception() is None:
        raise cancelled
    return task.result()
