"""An agent in bubblewrap that tries everything: it has its model and one host, and nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.gateway.escaping import check_that_nothing_else_is_reached
from tests.kit.gateway.provider import Provider, run_provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_nothing_else_is_reached_from_bubblewrap(tmp_path: Path, provider: Provider) -> None:
    await check_that_nothing_else_is_reached(tmp_path, provider.url, "bubblewrap")
