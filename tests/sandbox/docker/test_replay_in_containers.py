"""Agents in containers that are answered by recorded calls, with the provider off."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.kit.docker.traces import containers_of
from tests.kit.gateway.experiments import Setting, run
from tests.kit.gateway.killable import PAUSING, Killable, kill
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider

NOWHERE = "http://127.0.0.1:9"
"""A provider that is off."""


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def test_a_strict_replay_in_containers_has_the_same_digest(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    setting = Setting(kind="docker", url=provider.url, plan={"image": ash, "memory_mb": 256}, tasks=2)
    recorded = await run(setting.make(), tmp_path / "then")
    off = replace(setting, url=NOWHERE, policy={"replay": str(recorded.paths.root)})
    played = await run(off.make(), tmp_path / "now", secrets={})
    assert played.end.status.chain == recorded.end.status.chain
    assert [call.replayed for call in played.calls()] == [call.call_id for call in recorded.calls()]
    assert len(provider.got) == 2


@pytest.mark.crash
@pytest.mark.timeout(240)
async def test_an_adopted_container_goes_on_with_its_replay_though_lab_was_killed(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    sandbox = f'{{kind: docker, image: "{ash}", memory_mb: 128, cpus: 1}}'
    lab = Killable(folder=tmp_path / "lab", url=provider.url, sandbox=sandbox, agent=PAUSING)
    lab.write()
    await lab.finish()
    asked = len(provider.got)
    again = replace(lab, run_id="again", words=("--replay", "the-run"), key_value=None)
    process = await again.start()
    async with asyncio.timeout(120):
        while not again.calls():
            await asyncio.sleep(0.02)
    await kill(process)
    assert len(find_daemons(again.run)) == 1  # for the container that goes on
    await again.finish()
    assert again.read_chain() == again.read_chain(lab.run)
    assert len({call.replayed for call in again.calls()}) == len(again.calls()) == 4
    assert len(provider.got) == asked
    assert len(again.attempts()) == 1
    assert await containers_of(again.run) == []
