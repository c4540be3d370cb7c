"""A disk of the host that is full, under the run or under the engine, is no fault of an agent."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.records.cause import Cause
from labrunner.records.completion import Completion, Failed, Graded
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.maker import DockerMaker
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure
from tests.kit.docker.trials import Trial, shell

FILL = "cat /dev/zero > /agentlab/workspace/big; sleep 30"
FILL_LAYER = "cat /dev/zero > /root/big; sleep 30"


def mount(folder: Path, size: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount(tmp_path / "small", "64m")
    yield tmp_path / "small"
    subprocess.run(["umount", "--lazy", tmp_path / "small"], check=True)


def reason(completion: Completion) -> tuple[Cause, str] | None:
    end = completion.end
    return (end.cause, end.reason) if isinstance(end, Failed) else None


@pytest.mark.root
async def test_an_agent_that_fills_the_hosts_disk_within_its_share_is_missing_data(
    small_disk: Path, ash: str
) -> None:
    trial = Trial(root=small_disk / "run", image=ash, agent=shell(FILL))
    assert reason(await trial.carry_out()) == (Cause.SANDBOX, "disk_full")
    assert not (trial.folders.workspace / "big").exists()


@pytest.mark.root
async def test_an_agent_that_goes_over_its_own_share_is_judged(small_disk: Path, ash: str) -> None:
    trial = Trial(root=small_disk / "run", image=ash, agent=shell(FILL), sandbox={"disk_mb": 20})
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.ended_by == "disk"


@pytest_asyncio.fixture
async def cramped() -> AsyncIterator[Daemon]:
    """An engine with little room of its own."""
    daemon = Daemon(live_restore=False)
    mount(daemon.place / "data", "160m")
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.destroy()
        subprocess.run(["umount", "--lazy", daemon.place / "data"], check=False)
        subprocess.run(["rm", "-rf", daemon.place], check=False)


@pytest.mark.root
async def test_an_engine_whose_disk_is_full_is_no_fault_of_the_agent(cramped: Daemon, tmp_path: Path) -> None:
    engine = Engine(cramped.url)
    image = await ensure(engine, ASH)
    maker = DockerMaker(engine)
    trial = Trial(root=tmp_path / "run", image=image, agent=shell(FILL_LAYER), maker=maker)
    assert reason(await trial.carry_out()) == (Cause.SANDBOX, "disk_full")
