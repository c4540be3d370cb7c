"""Devices that an agent found in its image and moved are in no layer."""

from pathlib import Path

import pytest

from labrunner.records.completion import Graded
from tests.kit.docker.testimages import Images, Recipe
from tests.kit.docker.trials import PASS, Trial, by_list, shell

WITH_DEVICES = Recipe(name="devices", files=(("app/file", "as it was\n"),), devices=("app/null",))


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_devices_of_an_image_that_the_agent_moved_are_left_out_and_told(
    tmp_path: Path, images: Images, way: str
) -> None:
    image = await images(WITH_DEVICES)
    work = Trial(root=tmp_path, image=image, sandbox={"workdir": "/app"}, grader_changes={"where": "fresh"})
    work.maker = await by_list() if way == "list" else None
    work.agent = shell("mv null moved; echo x >beside")
    work.grader = shell(f"ls; {PASS}")
    done = await work.carry_out()
    assert isinstance(done.end, Graded), done
    assert done.timing.barrier["layer_left_out"] == "devices 1"
    assert work.log("grader.stdout").split() == ["beside", "file"]
