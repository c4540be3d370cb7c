"""A plain user of the engine's socket: agents find their model on a network of the run's own."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from labrunner.experiment.resolved import Network
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.door import Demands
from tests.kit.docker.plainuser import lab_as_plain_user, plain_place
from tests.kit.docker.site import Site
from tests.kit.docker.traces import containers_of, networks_of
from tests.kit.gateway.killable import (
    COUNT,
    Killable,
    check_that_a_killed_gateway_cuts_one_connection_of_each,
    kill,
    kill_with_its_gateway,
)
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a plain user"),
]

OFF = Network(mode="none")


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


@pytest.fixture
def plain() -> Iterator[Path]:
    with plain_place() as place:
        yield place


def make_lab(plain: Path, provider: Provider, image: str, **changes: Any) -> Killable:
    sandbox = f'{{kind: docker, image: "{image}", memory_mb: 128, cpus: 1}}'
    lab = Killable(
        folder=plain / "work", url=provider.url, sandbox=sandbox, key="null", plain=plain, **changes
    )
    lab.write()
    return lab


async def check_that_nothing_is_left(lab: Killable) -> None:
    assert find_daemons(lab.run) == []
    assert await containers_of(lab.run) == []
    assert await networks_of(lab.run) == []


@pytest.mark.crash
@pytest.mark.timeout(240)
async def test_a_plain_users_agents_are_adopted_and_hear_their_model_to_the_end(
    plain: Path, provider: Provider, ash: str
) -> None:
    lab = make_lab(plain, provider, ash, tasks=2)
    provider.gate = asyncio.Event()
    process = await lab.start()
    async with asyncio.timeout(120):
        while len(provider.got) < 2:
            await asyncio.sleep(0.05)
    await kill(process)
    networks = await networks_of(lab.run)
    assert len(networks) == len(find_daemons(lab.run)) == 1
    told = lab_as_plain_user(plain, "clean", "--yes", timeout_s=60).stdout
    assert "2 containers with work that can be gone on with" in told
    assert await networks_of(lab.run) == networks  # agents are at work there
    provider.gate.set()
    await lab.finish()
    assert [path.read_text() for path in lab.run.glob("trials/*/*/workspace/cuts.txt")] == ["0", "0"]
    assert [call.end for call in lab.calls()] == ["answered"] * 2
    assert lab.reaches() == {"bridge"}
    await check_that_nothing_is_left(lab)


@pytest.mark.crash
@pytest.mark.timeout(240)
async def test_killed_together_with_its_gateway_a_plain_users_lab_serves_agents_where_they_look(
    plain: Path, provider: Provider, ash: str
) -> None:
    lab = make_lab(plain, provider, ash, agent=COUNT)  # which comes again when it is told 503
    await kill_with_its_gateway(lab, provider)
    assert [each["other"] for each in lab.seen()] == [[]]
    await check_that_nothing_is_left(lab)


@pytest.mark.crash
@pytest.mark.timeout(240)
async def test_lab_clean_takes_away_the_network_of_a_run_whose_containers_are_gone(
    plain: Path, provider: Provider, ash: str
) -> None:
    lab = make_lab(plain, provider, ash)
    provider.gate = asyncio.Event()
    process = await lab.start()
    await asyncio.wait_for(provider.begun.wait(), 120)
    await kill(process)
    engine = Engine()
    for name in await containers_of(lab.run):
        await engine.remove(name)
    await engine.close()
    assert len(await networks_of(lab.run)) == 1
    done = lab_as_plain_user(plain, "clean", "--yes", timeout_s=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the-run: 1 x network" in done.stdout
    assert await networks_of(lab.run) == []


async def test_lab_clean_leaves_alone_what_a_plain_user_cant_look_at(
    plain: Path, ash: str, tmp_path: Path
) -> None:
    site = Site(maker=DockerMaker(way="bridge"), run_dir=tmp_path / "run", image=ash)
    site.run_dir.mkdir()
    tmp_path.chmod(0o700)
    demands = Demands(networks=(OFF, Network(mode="none", models=("m",)), OFF))
    async with site.maker.open(site.spec(demands=demands)):
        pass  # its container has ended, and waits for its release
    before = await containers_of(site.run_dir), await networks_of(site.run_dir)
    assert [len(each) for each in before] == [1, 1]
    done = lab_as_plain_user(plain, "clean", "--yes", timeout_s=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (await containers_of(site.run_dir), await networks_of(site.run_dir)) == before
    await site.maker.reap(site.run, frozenset())
    await site.maker.close()
    assert await networks_of(site.run_dir) == []


@pytest.mark.timeout(240)
async def test_a_plain_user_is_told_what_else_agents_can_reach_and_they_ask_their_model(
    plain: Path, provider: Provider, ash: str
) -> None:
    lab = make_lab(plain, provider, ash)
    done = await asyncio.to_thread(lab_as_plain_user, plain, "doctor", "--json", timeout_s=200)
    assert done.returncode == 0, done.stdout + done.stderr
    [told] = [each for each in json.loads(done.stdout)["checks"] if each["name"] == "reach"]
    assert told["message"].startswith("bridge: ")
    assert (told["severity"], told["passed"]) == ("warning", False)
    await lab.finish()
    assert [call.end for call in lab.calls()] == ["answered"]
    assert lab.reaches() == {"bridge"}
    await check_that_nothing_is_left(lab)


@pytest.mark.torture  # the quick form of it: what shares an address in tests/gateway/test_killed.py
@pytest.mark.crash
@pytest.mark.timeout(240)
async def test_a_killed_gateway_is_one_cut_connection_for_each_of_a_plain_users_containers(
    plain: Path, provider: Provider, ash: str
) -> None:
    lab = make_lab(plain, provider, ash, tasks=2, agent=COUNT)
    await check_that_a_killed_gateway_cuts_one_connection_of_each(lab, provider)
    await check_that_nothing_is_left(lab)
