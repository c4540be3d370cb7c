"""Owners of runs on a made-up cluster, for whichever one a test has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.kit.executor.madenodes import MadeCluster
from tests.kit.executor.madeowners import Owners


@pytest_asyncio.fixture
async def owners(tmp_path: Path, cluster: MadeCluster) -> AsyncIterator[Owners]:
    made = Owners(tmp_path, cluster)
    yield made
    for executor in made.made:
        await executor.close()
