"""A root agent in a container that tries everything: it has its model and one host, and nothing else."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.kit.docker.plainuser import plain_place
from tests.kit.docker.traces import networks_of
from tests.kit.gateway.escaping import (
    check_that_a_plain_users_agents_reach_nothing_else,
    check_that_nothing_else_is_reached,
)
from tests.kit.gateway.provider import Provider, run_provider


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def test_nothing_else_is_reached_by_root_in_a_container(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    plan = {"image": ash, "memory_mb": 256}
    await check_that_nothing_else_is_reached(tmp_path, provider, "docker", plan)


# What the engine drops is waited for; test_run_networks.py has a quick look at such a network.
@pytest.mark.torture
@pytest.mark.root
@pytest.mark.timeout(400)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a plain user")
async def test_a_plain_users_agents_reach_careless_services_of_the_host_and_nothing_else(
    ash: str, provider: Provider
) -> None:
    sandbox = f'{{kind: docker, image: "{ash}", memory_mb: 256}}'
    with plain_place() as place:
        await check_that_a_plain_users_agents_reach_nothing_else(place, provider, sandbox, is_bridged=True)
        assert await networks_of(place / "work/.lab/runs/the-run") == []
