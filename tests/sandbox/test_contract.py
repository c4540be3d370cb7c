"""What every sandbox promises, and what those of processes promise besides, tried on each of them."""

import asyncio
import sys
from pathlib import Path

import pytest

from labrunner.experiment.resolved import Network
from labrunner.sandbox.door import SandboxMaker
from tests.kit.sandbox.contract import *  # noqa: F403 - collected from here
from tests.kit.sandbox.place import Place, make_place, phase, sh


async def test_cancelling_at_any_moment_of_a_launch_leaves_nothing(
    maker: SandboxMaker, tmp_path: Path
) -> None:
    for number in range(12):
        place = make_place(maker, tmp_path / str(number))
        place.lock.touch()
        hold = "import fcntl, time; f = open('lock'); fcntl.flock(f, fcntl.LOCK_SH); time.sleep(600)"
        async with asyncio.TaskGroup() as group:
            task = group.create_task(place.run(phase(place.paths.python, "-c", hold)))
            await asyncio.sleep(number * 0.003)
            task.cancel()
        assert not place.processes_hold_the_lock()


async def test_many_attempts_at_once_do_not_meet(maker: SandboxMaker, tmp_path: Path) -> None:
    places = [make_place(maker, tmp_path / str(number)) for number in range(12)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(place.run(sh(f"echo {number} > mine; exit {number}")))
            for number, place in enumerate(places)
        ]
    assert [task.result().exit_status for task in tasks] == list(range(12))
    assert [(place.folders.workspace / "mine").read_text() for place in places] == [
        f"{n}\n" for n in range(12)
    ]


async def test_resource_use_is_measured(place: Place) -> None:
    end = await place.run(sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"))
    assert end.usage["cpu_s"] > 0.02
    assert end.usage["max_rss_mb"] > 1
    assert end.seconds > 0.02


async def test_network_lists_and_users_are_refused_in_words(place: Place) -> None:
    from labrunner.errors import SandboxFailed

    async with place.open() as sandbox:
        with pytest.raises(SandboxFailed, match="allowed hosts"):
            await sandbox.run_agent(None, sh(":", network=Network(mode="allow", hosts=("a.example",))))
        with pytest.raises(SandboxFailed, match="user"):
            await sandbox.run_agent(None, sh(":", user="nobody"))


async def test_what_is_installed_for_lab_is_not_there_for_agents_and_graders(place: Place) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("these tests run without an environment of their own")
    python = place.paths.python
    for module, status in (("json", 0), ("labrunner", 1), ("msgspec", 1)):
        end = await place.run(phase(python, "-c", f"import {module}"))
        assert end.exit_status == status, (module, place.stderr())
