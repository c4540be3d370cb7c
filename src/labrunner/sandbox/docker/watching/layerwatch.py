"""Watches what a container writes outside its folders, where this user may not look: the engine is asked."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine.client import Engine


async def watch_layer(
    engine: Engine,
    container: str,
    limit: int,
    on_over: Callable[[], None],
    *,
    beyond_first: bool,
    pause_s: float,
) -> None:
    """Call `on_over` once the container's layer holds too much. An engine that is away is asked again.

    With `beyond_first` the limit is for what comes on top of the first answer. It is asked every `pause_s`
    at most, and asking takes at most a tenth
    of the time, however much there is to count.
    """
    wait_s = pause_s
    while True:
        await asyncio.sleep(wait_s)
        asked_at = time.monotonic()
        with suppress(SandboxFailed):
            size = await engine.layer_size(container)
            if beyond_first:
                limit, beyond_first = limit + size, False
            if size > limit:
                on_over()
                return
        wait_s = max(pause_s, 10 * (time.monotonic() - asked_at))
