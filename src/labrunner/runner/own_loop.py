"""Event loops of our own.

Rule: who runs inside of somebody else's loop leaves it as it is.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

BLOCKING_THREADS: Final = 32
"""Preparing and collecting are disk work: more of it at once than there are cores."""

T = TypeVar("T")


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """Carry out work that takes up, or makes, a run, in a loop with threads enough for it."""
    with asyncio.Runner() as runner:
        pool = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="lab-blocking")
        runner.get_loop().set_default_executor(pool)
        return runner.run(work)
