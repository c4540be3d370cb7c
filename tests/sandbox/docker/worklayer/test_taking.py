"""A layer that nobody waits for any more is not there, and nobody is at it."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.replies import ImageFacts
from labrunner.sandbox.docker.worklayer.taking import LayerTaker
from labrunner.sandbox.door import SandboxSpec
from tests.kit.docker.site import Site

LARGE = 8 << 30
PLENTY = (1 << 40, 1000)


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    yield engine
    await engine.close()


@pytest.fixture
def spec(site: Site) -> SandboxSpec:
    return site.spec(workdir="/app")


def make_taker(engine: Engine, spec: SandboxSpec, upper: Path, most: tuple[int, int] = PLENTY) -> LayerTaker:
    image = ImageFacts(id="sha256:0", repo_digest=None, user="", env={})
    return LayerTaker(engine=engine, container="none", image=image, spec=spec, most=most, upper=upper)


@pytest.mark.timeout(60)
async def test_taking_a_layer_has_ended_when_its_cancelling_has(
    engine: Engine, spec: SandboxSpec, tmp_path: Path
) -> None:
    (tmp_path / "upper/app").mkdir(parents=True)
    (tmp_path / "upper/app/hollow").touch()
    os.truncate(tmp_path / "upper/app/hollow", LARGE)
    taking = asyncio.ensure_future(make_taker(engine, spec, tmp_path / "upper").take())
    while not (spec.folders.root / LAYER_PART).exists():
        await asyncio.sleep(0.001)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert list(spec.folders.root.glob("layer*")) == []


async def test_a_layer_that_a_dead_runner_left_is_gone_where_none_can_be_had(
    engine: Engine, spec: SandboxSpec, tmp_path: Path
) -> None:
    (tmp_path / "upper/app").mkdir(parents=True)
    (tmp_path / "upper/app/file").write_text("more than a byte")
    for name in (LAYER, LAYER_PART):
        (spec.folders.root / name).write_text("half of one")
    note = await make_taker(engine, spec, tmp_path / "upper", (1, 10)).take()
    assert note.problem is not None
    assert list(spec.folders.root.glob("layer*")) == []
