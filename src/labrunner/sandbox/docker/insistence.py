"""Work that is finished even when whoever asked for it is cancelled meanwhile."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def insist(work: Coroutine[Any, Any, T]) -> T:
    """Finish the work; a cancellation that came meanwhile is passed on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as told:
            cancelled = told
    if cancelled is not None and not task.cancelled() and task.exception() is None:
        raise cancelled
    return task.result()
