"""Owners killed with SIGKILL at random moments, again and again, until the run is done."""

import random
from pathlib import Path

import pytest

from labrunner.store.layout import RunPaths
from tests.kit.crash.driver import Job
from tests.kit.crash.driving import Driver, Heard
from tests.kit.crash.invariants import check_complete, check_dead
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario

pytestmark = pytest.mark.crash

SHORT = Shape(tasks=10, variants=4, replications=10, concurrency=8)
LONG = Shape(tasks=50, variants=4, replications=10, concurrency=8)


class KillLoop:
    """One experiment, an undisturbed run of it, and runs that are killed until they are done."""

    def __init__(self, driver: Driver, folder: Path, shape: Shape, longest_s: float) -> None:
        self._driver = driver
        self._folder = folder
        self._longest_s = longest_s
        self._dice = random.Random()
        self._experiment = str(write_scenario(folder / "experiment", shape))
        self.kills = 0

    def job(self, name: str) -> Job:
        return Job(experiment=self._experiment, runs_dir=str(self._folder / name))

    def run_undisturbed(self) -> Path:
        assert self._driver.run(self.job("undisturbed")).code == 0
        return self._folder / "undisturbed" / RUN_ID

    def kill_until_done(self, name: str, *, most_kills: int) -> RunPaths:
        """Kill owners of one run until it is done, or until there were enough; then let it end."""
        job, heard, paths = self.job(name), Heard(), RunPaths(self._folder / name / RUN_ID)
        while self.kills < most_kills:
            self._driver.start(job, heard)
            if self._dice.random() < 0.8:
                self._driver.wait_open()
            if self._driver.kill_after(self._dice.uniform(0, self._longest_s)).code == 0:
                break
            assert heard.code == -9
            self.kills += 1
            check_dead(paths, heard)
        else:
            assert self._driver.run(job, heard).code == 0
        check_dead(paths, heard)
        return paths


def kill(loop: KillLoop, *, kills: int) -> None:
    undisturbed, number = loop.run_undisturbed(), 0
    while loop.kills < kills:
        check_complete(loop.kill_until_done(f"killed-{number}", most_kills=kills), undisturbed)
        number += 1


def test_nothing_is_lost_doubled_or_run_twice_however_often_the_owner_is_killed(
    driver: Driver, tmp_path: Path
) -> None:
    kill(KillLoop(driver, tmp_path, SHORT, longest_s=0.2), kills=50)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_a_thousand_kills(driver: Driver, tmp_path: Path) -> None:
    kill(KillLoop(driver, tmp_path, LONG, longest_s=0.4), kills=1000)
