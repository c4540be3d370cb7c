"""Containers of a cluster ask their model through their node's gateway, which outlives its worker."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.gateway.metering.lentrecord import read_lent
from tests.kit.executor.rayclusters import RayCluster, running_nodes
from tests.kit.gateway.experiments import CLIENT
from tests.kit.gateway.killable import Killable
from tests.kit.gateway.provider import Provider, run_provider

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]

BUDGET = 40_000
SLOWLY = (
    CLIENT
    + """
import time
open("started.txt", "a").write("x")
said = ask()
while not os.path.exists("go"):
    time.sleep(0.05)
said += ask() + ask()
open("answer.txt", "w").write(said)
"""
)
"""Asks once, and twice more when it is told to."""


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    with running_nodes("n1") as made:
        yield made


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def test_containers_ask_on_through_a_gateway_whose_worker_was_killed_and_its_loan_goes_on(
    tmp_path: Path, ash: str, cluster: RayCluster, provider: Provider
) -> None:
    lab = Killable(
        folder=tmp_path / "run",
        url=provider.url,
        sandbox=f'{{kind: docker, image: "{ash}", memory_mb: 128, cpus: 1}}',
        tasks=2,
        agent=SLOWLY,
        more=f"budget: {{tokens: {BUDGET}}}\n"
        f"executor: {{kind: ray, address: '{cluster.address}', per_node: 2}}\n",
    )
    lab.write()
    running = await lab.start()
    async with asyncio.timeout(200):
        while len(provider.got) < 2:
            assert running.returncode is None, (await running.communicate())[1].decode()
            await asyncio.sleep(0.05)
    [worker] = cluster.nodes["n1"].pids("ray::Worker")
    os.kill(worker, signal.SIGKILL)
    workspaces = [path.parent for path in cluster.nodes_dir.glob("*/runs/*/trials/*/*/workspace/started.txt")]
    assert len(workspaces) == 2
    (workspaces[0] / "go").touch()  # one asks while nobody speaks for its gateway, of what that had borrowed
    async with asyncio.timeout(200):
        while len(provider.got) < 4 or cluster.nodes["n1"].pids("ray::Worker") in ([], [worker]):
            await asyncio.sleep(0.05)
    (workspaces[1] / "go").touch()
    _, told = await asyncio.wait_for(running.communicate(), 200)
    assert running.returncode == 0, told.decode()
    assert [path.read_text() for path in lab.run.glob("trials/*/*/workspace/started.txt")] == ["x", "x"]
    assert [len(lab.calls_of(folder)) for folder in lab.attempts()] == [3, 3]
    [lent] = read_lent(lab.run / "gateway").lent.values()  # one process has served them from first to last
    spent = sum(call.tokens.input + call.tokens.output for call in lab.calls() if call.tokens is not None)
    assert lent.loan.spent["tokens"] == spent == 6 * 150
    assert lent.loan.granted["tokens"] - lent.loan.returned["tokens"] >= spent
