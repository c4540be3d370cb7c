"""Carrying out from plain code what is written for an event loop.

Rule: where a loop runs already, as in a notebook, nothing is started: it would be blocked, or refuse.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from labrunner.runner.own_loop import run_alone

T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T], otherwise: str) -> T:
    """Carry something out; inside a loop, say what to call instead."""
    if _is_inside():
        work.close()
        raise RuntimeError(f"an event loop is running already: use `await {otherwise}(...)` here")
    return run_alone(work)


def _is_inside() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
