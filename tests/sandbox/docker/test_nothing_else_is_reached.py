"""A root agent in a container that tries everything: it has its model and one host, and nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.kit.gateway.escaping import check_that_nothing_else_is_reached
from tests.kit.gateway.provider import Provider, run_provider


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def test_nothing_else_is_reached_by_root_in_a_container(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    plan = {"image": ash, "memory_mb": 256}
    await check_that_nothing_else_is_reached(tmp_path, provider.url, "docker", plan)
