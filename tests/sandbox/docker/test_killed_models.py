"""`lab` or its gateway is killed while agents in containers hear their model: nothing is lost or doubled."""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from labrunner.store.layout import RunPaths
from tests.kit.docker.traces import containers_of
from tests.kit.gateway.killable import (
    COUNT,
    Killable,
    check_that_a_killed_gateway_cuts_one_connection_of_each,
    kill,
    kill_with_its_gateway,
)
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider
from tests.kit.gateway.sites import find_address
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
    await kill_with_its_gateway(lab, provider)
    assert find_daemons(lab.run) == []
    assert await containers_of(lab.run) == []


@pytest.mark.timeout(240)
async def test_a_killed_gateway_is_one_cut_connection_for_each_container(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    lab = make_lab(tmp_path / "counting", provider, ash, 2, agent=COUNT)
    await check_that_a_killed_gateway_cuts_one_connection_of_each(lab, provider)


FETCH_AND_PASS = """
import json, os, pathlib, time, urllib.request
started = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "graders.txt")
started.write_text((started.read_text() if started.exists() else "") + "x")
said = ""
while said != "here":
    try:
        said = urllib.request.urlopen("http://@PLACE@/", timeout=60).read().decode()
    except OSError:
        time.sleep(0.05)
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": "pass"}))
"""


@pytest.mark.timeout(240)
async def test_an_adopted_grader_has_its_doors_again_though_lab_and_gateway_were_killed(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    came, gate = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        came.set()
        await gate.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhere")
        writer.close()

    site = await asyncio.start_server(answer, find_address(), 0)
    place = "{}:{}".format(*site.sockets[0].getsockname())
    async with site:
        grader = FETCH_AND_PASS.replace("@PLACE@", place)
        allowed = f"{{allow: ['{place}']}}"
        lab = make_lab(tmp_path / "killed", provider, ash, grader=grader, grader_network=allowed)
        process = await lab.start()
        await asyncio.wait_for(came.wait(), 120)
        [pid] = find_daemons(lab.run)
        await kill(process)
        os.kill(pid, signal.SIGKILL)
        gate.set()
        await lab.finish()
    assert [path.read_text() for path in lab.run.glob("trials/*/*/workspace/graders.txt")] == ["x"]
    [row] = RunPaths(lab.run).trials.read_bytes().splitlines()
    assert json.loads(row)["verdict"] == "pass"
    assert find_daemons(lab.run) == []


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
