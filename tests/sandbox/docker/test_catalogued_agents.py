"""Every agent of the catalogue in containers without a network, without Python and without Node."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import PLACE
from tests.kit.agents.depots import open_depot
from tests.kit.agents.playing import check_play
from tests.kit.agents.roles import ROLES
from tests.kit.docker.musl import fetch_musl
from tests.kit.docker.testimages import CPLUSPLUS, GLIBC, NO_LIBC, Images, Recipe

WITH_CPLUSPLUS = ("goose",)
WITHOUT_LIBC = ("codex", "mini-swe-agent")
"""Those that bring all that they need."""
WITH_MUSL = ("claude-code", "codex", "gemini-cli")
"""One that has a build for musl, one that is bound to no C library, and one that brings Node with its own."""


async def list_containers() -> list[str]:
    engine = Engine()
    try:
        return [each.name for each in await engine.list(PLACE)]
    finally:
        await engine.close()


@pytest.fixture(scope="module")
def depot() -> Iterator[Path]:
    with open_depot() as place:
        yield place


@pytest.fixture
def own_cache(depot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all of them: agents are large."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(depot))


@pytest.mark.agents
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("agent", sorted(ROLES))
def test_an_agent_plays_three_tasks_in_a_container(agent: str, tmp_path: Path, images: Images) -> None:
    recipe = CPLUSPLUS if agent in WITH_CPLUSPLUS else GLIBC
    check_play(agent, tmp_path, {"image": asyncio.run(images(recipe))})
    assert asyncio.run(list_containers()) == []


@pytest.mark.agents
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("agent", WITHOUT_LIBC)
def test_an_agent_needs_no_c_library_of_its_image(agent: str, tmp_path: Path, images: Images) -> None:
    check_play(agent, tmp_path, {"image": asyncio.run(images(NO_LIBC))})


@pytest.fixture(scope="module")
def musl(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return fetch_musl(tmp_path_factory.mktemp("musl"))


@pytest.mark.agents
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("agent", WITH_MUSL)
def test_an_agent_plays_three_tasks_where_musl_is_the_c_library(
    agent: str, tmp_path: Path, images: Images, musl: Recipe
) -> None:
    check_play(agent, tmp_path, {"image": asyncio.run(images(musl))})
