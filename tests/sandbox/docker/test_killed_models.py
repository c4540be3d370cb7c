"""`lab` or its gateway is killed while agents in containers hear their model: nothing is lost or doubled."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.kit.docker.traces import containers_of
from tests.kit.gateway.killable import (
    COUNT,
    Killable,
    check_that_a_killed_gateway_cuts_one_connection_of_each,
    kill,
)
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider
from tests.kit.runner.running import committed_bytes

pytestmark = pytest.mark.crash


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def make_lab(folder: Path, provider: Provider, image: str, tasks: int = 1, **changes: Any) -> Killable:
    sandbox = f'{{kind: docker, image: "{image}", memory_mb: 128, cpus: 1}}'
    lab = Killable(folder=folder, url=provider.url, sandbox=sandbox, tasks=tasks, **changes)
    lab.write()
    return lab


def check(lab: Killable, provider: Provider, tasks: int) -> None:
    assert len(lab.attempts()) == tasks
    assert [path.read_text() for path in lab.run.glob("trials/*/*/workspace/started.txt")] == ["x"] * tasks
    calls = lab.calls()
    assert [call.end for call in calls] == ["answered"] * tasks
    assert len({call.call_id for call in calls}) == tasks
    assert len(provider.got) == tasks
    assert [path.read_text() for path in lab.run.glob("trials/*/*/workspace/cuts.txt")] == ["0"] * tasks
    assert len(set(lab.answers())) == 1
    assert find_daemons(lab.run) == []


@pytest.mark.timeout(240)
async def test_an_adopted_agent_hears_its_model_to_the_end_though_lab_was_killed_midway(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    lab = make_lab(tmp_path / "killed", provider, ash, 3)
    provider.gate = asyncio.Event()
    for _ in range(2):
        process = await lab.start()
        async with asyncio.timeout(120):
            while len(provider.got) < 3:
                await asyncio.sleep(0.05)
        await kill(process)
        assert len(find_daemons(lab.run)) == 1  # for the containers that go on
    provider.gate.set()
    await lab.finish()
    check(lab, provider, 3)
    assert await containers_of(lab.run) == []
    calm = make_lab(tmp_path / "calm", provider, ash, 3)
    await calm.finish()
    assert committed_bytes(lab.run) == committed_bytes(calm.run)
    assert calm.answers() == lab.answers()


@pytest.mark.timeout(240)
async def test_lab_and_gateway_killed_at_once_cost_a_container_one_connection(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    lab = make_lab(tmp_path / "killed", provider, ash)
    provider.gate = asyncio.Event()
    process = await lab.start()
    await asyncio.wait_for(provider.begun.wait(), 120)
    [pid] = find_daemons(lab.run)
    await kill(process)
    os.kill(pid, signal.SIGKILL)
    provider.gate.set()
    await lab.finish()
    assert [call.end for call in lab.calls()] == ["answered"]
    assert len(lab.attempts()) == 1
    assert find_daemons(lab.run) == []
    assert await containers_of(lab.run) == []


@pytest.mark.timeout(240)
async def test_a_killed_gateway_is_one_cut_connection_for_each_container(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    lab = make_lab(tmp_path / "counting", provider, ash, 2, agent=COUNT)
    await check_that_a_killed_gateway_cuts_one_connection_of_each(lab, provider)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_fifty_runs_killed_midway_lose_and_double_no_call(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    chance = random.Random(int(os.environ.get("LAB_TEST_SEED", "13")))
    for number in range(50):
        provider.got.clear()
        provider.gate, provider.begun = asyncio.Event(), asyncio.Event()
        lab = make_lab(tmp_path / f"killed-{number}", provider, ash)
        process = await lab.start()
        await asyncio.wait_for(provider.begun.wait(), 120)
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        await kill(process)
        provider.gate.set()
        await lab.finish()
        check(lab, provider, 1)
