"""A real worker that is stopped and lives: it is ended, and its node used again."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.cluster.members.node import NODE_PACE
from labrunner.records.completion import Cancelled, Graded
from labrunner.records.encoding.ids import make_token
from labrunner.sandbox import registry
from tests.kit.executor.crews import RayCrew, Work
from tests.kit.executor.rayclusters import shared_node
from tests.kit.trial.attempting import HeardNotes

pytestmark = pytest.mark.timeout(200)  # a cluster is a dozen processes of Python
IMPATIENT = replace(NODE_PACE, look_s=0.2, again_s=0.5, ping_s=0.5, silence_s=8.0, cancel_s=5.0)


def stop_worker() -> int:
    (pid,) = shared_node().pids("ray::Worker")
    os.kill(pid, signal.SIGSTOP)
    return pid


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def until_begun(crew: RayCrew) -> None:
    while not (crew.at_work.workspace / "begun").exists():
        await asyncio.sleep(0.02)


@pytest.fixture
def waiting(tmp_path: Path) -> RayCrew:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    go = tmp_path / "go"
    agent = f"touch begun; while [ ! -e {go} ]; do sleep 0.02; done; echo an answer > answer"
    return RayCrew(run_dir=tmp_path / "run", work=Work(agent=agent))


async def test_a_worker_that_is_stopped_is_ended_and_its_node_used_again(
    waiting: RayCrew, tmp_path: Path
) -> None:
    executor = RayExecutor(waiting.context(), registry.make, pace=IMPATIENT)
    try:
        work = asyncio.ensure_future(executor.carry_out(waiting.assignment, HeardNotes()))
        await until_begun(waiting)
        stopped = stop_worker()
        assert (await work).end == Cancelled(reason="node_lost")
        assert not is_alive(stopped)
        (tmp_path / "go").touch()
        again = replace(waiting, token=make_token())
        completion = await executor.carry_out(again.assignment, HeardNotes())
        assert isinstance(completion.end, Graded), completion.end
    finally:
        await executor.close()


async def test_who_is_cancelled_does_not_wait_for_a_worker_that_is_stopped(waiting: RayCrew) -> None:
    patient_with_pings = replace(IMPATIENT, ping_s=3600.0)
    executor = RayExecutor(waiting.context(), registry.make, pace=patient_with_pings)
    try:
        work = asyncio.ensure_future(executor.carry_out(waiting.assignment, HeardNotes()))
        await until_begun(waiting)
        stopped = stop_worker()
        work.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait([work])
            assert work.cancelled()
            while is_alive(stopped):
                await asyncio.sleep(0.1)
    finally:
        await executor.close()
