"""Work that is finished even when whoever asked for it is cancelled, unless nobody answers any more."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
LOOK_S: Final = 0.5


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
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task], timeout=LOOK_S)
            if leaving_since is not None and not task.done() and await is_in_vain(leaving_since):
                task.cancel()
        except asyncio.CancelledError as told:
            cancelled = told
            leaving_since = leaving_since or time.monotonic()
    if cancelled is not None and not task.cancelled() and task.exception() is None:
        raise cancelled
    return task.result()
