"""An engine and images for tests. Without an engine that should be there, tests fail; they skip when told."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.maker import DockerMaker
from tests.kit.docker.lifesign import answers
from tests.kit.docker.site import DockerPlace, Site
from tests.kit.docker.testimages import ASH, Images

MISSING = "no Docker engine answers: run tests with scripts/with-docker, or set LAB_NO_DOCKER=1 to go without"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="session", autouse=True)
def engine_answers() -> None:
    async def ask() -> bool:
        engine = Engine()
        try:
            return await answers(engine)
        finally:
            await engine.close()

    if asyncio.run(ask()):
        return
    if os.environ.get("LAB_NO_DOCKER") and not os.environ.get("CI"):
        pytest.skip("LAB_NO_DOCKER is set: nothing about containers is tested")
    pytest.fail(MISSING)


@pytest.fixture(autouse=True)
def nothing_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test's preflight has a memory of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def images(engine_answers: None) -> Images:
    return Images()


@pytest.fixture(scope="session")
def ash(images: Images) -> str:
    """An image with busybox as its shell, and python."""
    return asyncio.run(images(ASH))


@pytest_asyncio.fixture
async def maker() -> AsyncIterator[DockerMaker]:
    maker = DockerMaker()
    yield maker
    await maker.close()


@pytest.fixture
def place(maker: DockerMaker, ash: str, tmp_path: Path) -> DockerPlace:
    return DockerPlace.make(maker, tmp_path / "attempt", ash)


@pytest_asyncio.fixture
async def site(maker: DockerMaker, ash: str, tmp_path: Path) -> AsyncIterator[Site]:
    """A run's folder; nothing of it is left when the test is over."""
    site = Site(maker=maker, run_dir=tmp_path / "run", image=ash)
    site.run_dir.mkdir()
    yield site
    await maker.reap(site.run, frozenset())
    assert await site.containers() == [], "containers were left behind"


@pytest.fixture
def need_groups() -> None:
    """Containers always have control groups; the shared contract asks where others may not."""
