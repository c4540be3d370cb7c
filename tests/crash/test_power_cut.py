"""The power cut at random moments: whatever was acknowledged is on the disk, with the files that it names."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.store.layout import RunPaths
from tests.kit.crash.disks import copy_image, make_image, mounted, skip_without_disks
from tests.kit.crash.driver import Job
from tests.kit.crash.driving import Driver, Heard, open_driver
from tests.kit.crash.invariants import check_complete, check_dead
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario

pytestmark = [pytest.mark.crash, pytest.mark.root]

SHAPE = Shape(tasks=10, variants=2, replications=3)


class PowerCuts:
    """A run on a disk of its own, whose power is cut while it goes on."""

    def __init__(self, driver: Driver, other: Driver, folder: Path) -> None:
        self._driver = driver
        self._other = other
        self._folder = folder
        self._experiment = str(write_scenario(folder / "experiment", SHAPE))
        assert driver.run(self.job(folder / "undisturbed")).code == 0

    def job(self, runs_dir: Path) -> Job:
        return Job(experiment=self._experiment, runs_dir=str(runs_dir))

    def cut(self, cuts: int) -> int:
        """Begin a run, cut its power up to `cuts` times while it lasts, and say how often that was."""
        image = self._folder / "disk"
        make_image(image)
        made = 0
        with mounted(image, self._folder / "mounted") as place:
            heard = Heard()
            self._driver.start(self.job(place / "runs"), heard)
            try:
                while made < cuts and self._runs_on(random.uniform(0.0, 0.4)):
                    made += self._cut_once(image, heard)
            finally:
                self._driver.kill()
        return made

    def _runs_on(self, seconds: float) -> bool:
        self._driver.hear_for(seconds)
        return self._driver.heard.code is None

    def _cut_once(self, image: Path, heard: Heard) -> bool:
        """Cut the power, unless the run has just ended."""
        copy = self._folder / "copy"
        self._driver.send(signal.SIGSTOP)
        if not _wait_stopped(self._driver.pid):
            return False
        self._driver.hear_for(0.05)
        copy_image(image, copy)
        self._go_on(copy, Heard(finished=dict(heard.finished), finished_trials=set(heard.finished_trials)))
        copy.unlink()
        self._driver.send(signal.SIGCONT)
        return True

    def _go_on(self, copy: Path, heard: Heard) -> None:
        """Look at what the cut left, then go on with it to the end, on another server: ours is stopped."""
        with mounted(copy, self._folder / "left") as place:
            paths = RunPaths(place / "runs" / RUN_ID)
            check_dead(paths, heard)
            assert self._other.run(self.job(place / "runs"), heard).code == 0, heard.errors
            check_dead(paths, heard)
            check_complete(paths, self._folder / "undisturbed" / RUN_ID)


def _wait_stopped(pid: int) -> bool:
    """A thread inside a sync stops only when the sync is done. False for a process that has ended."""
    while True:
        try:
            states = [
                Path(f"/proc/{pid}/task/{task}/stat").read_text().rsplit(")", 1)[1].split()[0]
                for task in os.listdir(f"/proc/{pid}/task")
            ]
        except (FileNotFoundError, ProcessLookupError):
            states = []
        if set(states) <= {"T", "t"}:
            return bool(states)
        if "Z" in states:
            return False
        time.sleep(0.002)


@pytest.fixture
def cuts(driver: Driver, tmp_path: Path) -> Iterator[PowerCuts]:
    skip_without_disks()
    with open_driver() as other:
        yield PowerCuts(driver, other, tmp_path)


def test_a_power_cut_loses_nothing_that_was_acknowledged(cuts: PowerCuts) -> None:
    made = 0
    while made < 3:
        made += cuts.cut(3 - made)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_thirty_power_cuts_lose_nothing_that_was_acknowledged(cuts: PowerCuts) -> None:
    made = 0
    while made < 30:
        made += cuts.cut(10)
