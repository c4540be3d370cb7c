"""Work that must not be lost, and who waits for it."""

import asyncio
import time
from pathlib import Path

import pytest

from labrunner.files.uninterrupted import insist
from labrunner.sandbox.docker.engine.client import Engine


async def never(since: float) -> bool:
    del since
    return False


async def test_a_cancellation_waits_for_the_work() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await may_end.wait()
        return "done"

    task = asyncio.ensure_future(insist(work(), is_in_vain=never))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_nobody_who_leaves_waits_for_work_that_is_in_vain() -> None:
    async def is_in_vain(since: float) -> bool:
        return time.monotonic() >= since

    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await insist(asyncio.Event().wait(), is_in_vain=is_in_vain, leaving_since=time.monotonic())


async def test_an_engine_that_is_only_slow_is_waited_for_and_one_that_is_gone_is_not(
    tmp_path: Path,
) -> None:
    here, gone = Engine(), Engine(f"unix://{tmp_path}/nobody")
    try:
        assert not await here.has_left(time.monotonic() - 1, farewell_s=0.0)
        assert await gone.has_left(time.monotonic() - 1, farewell_s=0.0)
        here._answered_at -= 1
        assert await here.has_left(time.monotonic() - 1, farewell_s=0.0, longest_s=0.5)
    finally:
        await here.close()
