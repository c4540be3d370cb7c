"""Waiting for an engine that is away: restarted, or too busy to answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from labrunner.sandbox.docker.engine.engine_errors import EngineGone

PATIENCE_S: Final = 120.0
PAUSE_S: Final = 0.25

T = TypeVar("T")


async def outlast(work: Callable[[], Awaitable[T]], *, told: Callable[[], None] | None = None) -> T:
    """Do the work, once more whenever the engine was away; `told` is called then.

    Nobody knows how far a call came that got no answer: the work must be such as may be done twice.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await work()
        except EngineGone:
            if told is not None:
                told()
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(PAUSE_S)
