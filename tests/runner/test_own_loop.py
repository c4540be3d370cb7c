"""Loops of our own, and those of others."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from labrunner.runner.own_loop import BLOCKING_THREADS, run_alone
from tests.kit.runner.running import Stage, make_sums


def test_a_loop_of_our_own_has_threads_enough_for_disk_work() -> None:
    everybody = threading.Barrier(BLOCKING_THREADS, timeout=20)

    async def meet() -> int:
        async with asyncio.TaskGroup() as group:
            for _ in range(BLOCKING_THREADS):
                group.create_task(asyncio.to_thread(everybody.wait))
        return everybody.parties

    assert run_alone(meet()) == BLOCKING_THREADS


async def test_a_run_in_somebody_else_s_loop_leaves_its_threads_as_they_are(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(2, thread_name_prefix="theirs"))

    end = await Stage(tmp_path).run(make_sums())

    assert end.status.status == "success"
    thread = await asyncio.to_thread(threading.current_thread)
    assert thread.name.startswith("theirs")
