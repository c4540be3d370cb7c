"""What is left of an attempt when the runner, a keeper or the warden is killed: nothing."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed
from labrunner.sandbox.processes.cgroup import control_groups
from tests.kit.sandbox.place import Place, plan, sh

pytestmark = pytest.mark.crash
DRIVER = Path(__file__).parents[1] / "kit/sandbox/driver.py"


def start_driver(place: Place, kind: str, agent: list[str], **more: float) -> subprocess.Popen[bytes]:
    """Start a runner. Warden and keepers share its standard error, so that ends when they are gone."""
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    order = {
        "kind": kind,
        "root": str(place.folders.root),
        "plan": asdict(plan(kind=kind)),
        "agent": agent,
        **more,
    }
    assert driver.stdin is not None
    driver.stdin.write(json.dumps(order).encode())
    driver.stdin.close()
    return driver


def wait_until_alone(driver: subprocess.Popen[bytes]) -> bytes:
    """Wait until driver, warden and keepers are gone."""
    assert driver.stderr is not None
    with driver.stderr:
        said = driver.stderr.read()
    driver.wait()
    return said


def kind_of(place: Place) -> str:
    return "bubblewrap" if type(place.maker).__name__.startswith("Bubblewrap") else "process"


def groups_of(pid: int) -> list[Path]:
    groups = control_groups()
    parents = set(groups.parents.values()) if groups is not None else set()
    return [group for parent in parents for group in Path(parent).glob(f"labrunner-{pid}-*")]


def test_a_killed_runner_leaves_no_process_and_no_group(place: Place) -> None:
    command = place.tree("stay")
    driver = start_driver(place, kind_of(place), list(command.argv))
    while not (place.folders.workspace / "started").exists():
        assert driver.poll() is None
        time.sleep(0.01)
    assert place.processes_hold_the_lock()
    driver.kill()
    assert wait_until_alone(driver) == b""
    assert not place.processes_hold_the_lock()
    assert groups_of(driver.pid) == []


def test_a_runner_that_ends_is_the_last_of_its_processes(place: Place) -> None:
    wait = "touch started; while [ ! -e go ]; do sleep 0.01; done"
    driver = start_driver(place, kind_of(place), ["/bin/sh", "-c", wait], patience_s=60)
    assert driver.stderr is not None
    with driver.stderr as stderr:
        while not (place.folders.workspace / "started").exists():
            time.sleep(0.01)
        (warden,) = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
        os.kill(int(warden), signal.SIGSTOP)
        try:
            (place.folders.workspace / "go").touch()
            with pytest.raises(subprocess.TimeoutExpired):
                driver.wait(2)
        finally:
            os.kill(int(warden), signal.SIGCONT)
        assert driver.wait(60) == 0
        os.set_blocking(stderr.fileno(), False)
        assert os.read(stderr.fileno(), 1) == b""  # a process that held it open would make this an error


@pytest.mark.parametrize("delay_ms", [0, 100, 200, 220, 240, 260, 280, 300, 330, 360, 400, 500])
def test_a_runner_killed_while_it_starts_things_leaves_nothing(place: Place, delay_ms: int) -> None:
    place.lock.touch()
    hold = "import fcntl, time; f = open('lock'); fcntl.flock(f, fcntl.LOCK_SH); time.sleep(600)"
    driver = start_driver(place, kind_of(place), ["{python}", "-c", hold])
    time.sleep(delay_ms / 1000)
    driver.kill()
    wait_until_alone(driver)
    assert not place.processes_hold_the_lock()


async def test_an_agent_that_kills_its_keeper_is_ended_by_the_warden(bare: Place) -> None:
    tree = " ".join(bare.tree("stay").argv)
    script = f"{tree} & while [ ! -e started ]; do :; done; kill -9 $PPID; sleep 1000"
    with pytest.raises(SandboxFailed, match="killed from outside"):
        await bare.run(sh(script))
    async with asyncio.timeout(10):
        while bare.processes_hold_the_lock():
            await asyncio.sleep(0.01)
    assert (await bare.run(sh("exit 5"))).exit_status == 5


async def test_a_killed_warden_takes_the_attempt_with_it_and_is_replaced(bare: Place) -> None:
    find_and_kill = "read -r _ _ _ warden _ < /proc/$PPID/stat; kill -9 $warden; sleep 1000"
    tree = " ".join(bare.tree("stay").argv)
    with pytest.raises(SandboxFailed, match="killed from outside"):
        await bare.run(sh(f"{tree} & while [ ! -e started ]; do :; done; {find_and_kill}"))
    async with asyncio.timeout(10):
        while bare.processes_hold_the_lock():
            await asyncio.sleep(0.01)
    assert (await bare.run(sh("exit 5"))).exit_status == 5


async def test_nothing_outside_the_attempt_is_signalled(place: Place) -> None:
    bystanders = [
        subprocess.Popen(["sleep", "1000"]),
        subprocess.Popen(["sleep", "1000"], start_new_session=True),
        subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], start_new_session=True),
    ]
    try:
        await place.run(place.tree("leave"))
        await place.run(place.tree("stay", timeout_s=0.5))
        await place.run(sh("(setsid sleep 1000 &) ; kill -TERM 0"))
        assert [bystander.poll() for bystander in bystanders] == [None, None, None]
    finally:
        for bystander in bystanders:
            bystander.kill()
            bystander.wait()


async def test_a_stopped_tree_is_ended_too(place: Place) -> None:
    end = await place.run(sh("kill -STOP $$", timeout_s=0.5))
    assert end.timed_out
