"""An agent in bubblewrap that tries everything: it has its model and one host, and nothing else."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.docker.plainuser import plain_place
from tests.kit.gateway.escaping import (
    check_that_a_plain_users_agents_reach_nothing_else,
    check_that_nothing_else_is_reached,
)
from tests.kit.gateway.provider import Provider, run_provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_nothing_else_is_reached_from_bubblewrap(tmp_path: Path, provider: Provider) -> None:
    await check_that_nothing_else_is_reached(tmp_path, provider, "bubblewrap")


@pytest.mark.root
@pytest.mark.bwrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a plain user")
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_nothing_else_is_reached_from_a_plain_users_bubblewrap(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain_place() as place:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{place / 'sock'}")  # there is none
        sandbox = "{kind: bubblewrap}"
        await check_that_a_plain_users_agents_reach_nothing_else(place, provider, sandbox, is_bridged=False)
