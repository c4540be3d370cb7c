"""A layer that can't be read to its end is told as that, and is nobody's work that an engine refuses."""

import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.errors import SandboxFailed, SystemBroken
from labrunner.files.layering.layerfile import LayerHead, write_layer
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.worklayer.patching import IDLE, made_aside
from labrunner.sandbox.docker.worklayer.restoring import put_layer

SIZE = 8 << 20


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    yield engine
    await engine.close()


def write(path: Path) -> None:
    top, noise = tarfile.TarInfo(""), tarfile.TarInfo("noise")
    top.type, top.mode, noise.size = tarfile.DIRTYPE, 0o755, SIZE
    with write_layer(path, LayerHead(folder="/app", image=""), (1 << 30, 10)) as writer:
        writer.add(top)
        writer.add(noise, io.BytesIO(os.urandom(SIZE)))


@pytest.mark.parametrize("damage", ["cut off", "other bytes"])
async def test_a_layer_that_is_damaged_in_its_middle_is_unreadable(
    engine: Engine, ash: str, tmp_path: Path, damage: str
) -> None:
    layer = tmp_path / "layer"
    write(layer)
    whole = bytearray(layer.read_bytes())
    middle = len(whole) // 2
    # Of incompressible data, blocks stand as they are: what is put there is no head of a block.
    whole[middle:] = b"" if damage == "cut off" else b"\xff" * (len(whole) - middle)
    layer.write_bytes(whole)
    config, over = {"Image": ash, "Cmd": list(IDLE)}, list[str]()
    async with made_aside(engine, config, "lab-test-damaged", over) as container:
        with pytest.raises(SandboxFailed) as raised:
            await put_layer(engine, container, layer, disks=(tmp_path,))
    assert not (await engine.look(container)).is_alive
    for each in over:
        await engine.remove(each)
    assert not isinstance(raised.value, SystemBroken)
    assert raised.value.reason == "layer_unreadable"
