"""Whether an engine is there."""

import asyncio

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineGone


async def answers(engine: Engine) -> bool:
    try:
        async with asyncio.timeout(5.0):
            await engine.facts()
    except (EngineGone, TimeoutError):
        return False
    return True
