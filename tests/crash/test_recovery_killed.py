"""Recovery itself killed at each of its steps, and the next one too, and the one after that."""

import itertools
import random
import shutil
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

from labrunner.files.points import POINTS
from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_crashes
from tests.kit.crash.driver import Job
from tests.kit.crash.driving import Driver, Heard
from tests.kit.crash.invariants import check_complete, check_dead
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=3, variants=2, replications=2)
FIRST_TRIAL = make_trial_id("v0", "t0", 0)
POINTS_PASSED = [
    *(point for point in POINTS if point.startswith("open.")),
    *("commit.begun", "commit.rows_synced", "commit.line_appended", "commit.line_synced"),
    *("buffer.inserted", "buffer.trimmed"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wreck:
    """A run whose owner died in the middle of things, and the same run undisturbed."""

    experiment: str
    runs_dir: Path
    heard: Heard
    undisturbed: Path


@pytest.fixture(scope="module")
def wreck(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Wreck:
    """Slots 0 and 1 are in the journal, the third line is torn; the rest waits in the buffer."""
    folder = tmp_path_factory.mktemp("wreck")
    experiment = str(write_scenario(folder / "experiment", SHAPE))
    undisturbed = Job(experiment=experiment, runs_dir=str(folder / "undisturbed"))
    assert driver.run(undisturbed).code == 0
    killed = Job(
        experiment=experiment,
        runs_dir=str(folder / "killed"),
        slow_trial=FIRST_TRIAL,
        slow_s=0.8,
        die_at="commit.line_appended:1",
    )
    heard = driver.run(killed)
    assert heard.code == -9
    assert len(heard.finished) == SHAPE.planned - 1
    paths = RunPaths(folder / "killed" / RUN_ID)
    journal = paths.commits.read_bytes().splitlines(keepends=True)
    assert len(journal) == SHAPE.planned
    paths.commits.write_bytes(b"".join(journal[:2]) + journal[2][:100])
    for path in (paths.predictions, paths.scores, paths.trials, paths.timings):
        with path.open("ab") as file:
            file.write(b'{"schedule_idx":')
    return Wreck(
        experiment=experiment,
        runs_dir=folder / "killed",
        heard=heard,
        undisturbed=folder / "undisturbed" / RUN_ID,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A copy of a wreck, and what was heard of the recoveries of it so far."""

    driver: Driver
    wreck: Wreck
    runs_dir: Path
    heard: Heard

    @classmethod
    def of(cls, driver: Driver, wreck: Wreck, runs_dir: Path) -> Self:
        """Take a copy of the wreck."""
        shutil.copytree(wreck.runs_dir, runs_dir)
        heard = Heard(finished=dict(wreck.heard.finished))
        return cls(driver=driver, wreck=wreck, runs_dir=runs_dir, heard=heard)

    @property
    def paths(self) -> RunPaths:
        """Where the run lies."""
        return RunPaths(self.runs_dir / RUN_ID)

    def fork(self, runs_dir: Path) -> Self:
        """Copy it as it is now, so that its past need not be gone through again."""
        shutil.copytree(self.runs_dir, runs_dir)
        return replace(self, runs_dir=runs_dir, heard=deepcopy(self.heard))

    def kill(self, point: str) -> None:
        """Go on with it, killed at a point."""
        self.driver.run(self._job(die_at=point), self.heard)
        assert self.heard.code in {-9, 0}  # 0: an earlier try had done that step for good
        check_dead(self.paths, self.heard)

    def finish(self) -> None:
        """Go on with it to the end, which is that of the undisturbed run, and throw it away."""
        heard = self.heard
        if heard.code != 0:
            self.driver.run(self._job(), heard)
        assert heard.code == 0, heard.errors
        check_complete(self.paths, self.wreck.undisturbed)
        assert len(read_crashes(self.paths)) == 1
        assert heard.finished.keys() == self.wreck.heard.finished.keys()
        assert heard.agents == []
        shutil.rmtree(self.runs_dir)

    def _job(self, die_at: str | None = None) -> Job:
        return Job(experiment=self.wreck.experiment, runs_dir=str(self.runs_dir), die_at=die_at)


def recover(driver: Driver, wreck: Wreck, runs_dir: Path, kills: tuple[str, ...]) -> None:
    """Go on with a copy of the wreck, killed at one point after another, and then to the end."""
    recovery = Recovery.of(driver, wreck, runs_dir)
    for point in kills:
        recovery.kill(point)
    recovery.finish()


@pytest.fixture(scope="module")
def hits(driver: Driver, wreck: Wreck, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often an undisturbed recovery passes each point."""
    runs_dir = tmp_path_factory.mktemp("counted") / "runs"
    shutil.copytree(wreck.runs_dir, runs_dir)
    return driver.run(Job(experiment=wreck.experiment, runs_dir=str(runs_dir))).points


@pytest.mark.parametrize("point", POINTS_PASSED)
def test_recovery_killed_three_times_at_the_same_step_converges(
    point: str, driver: Driver, wreck: Wreck, hits: dict[str, int], tmp_path: Path
) -> None:
    assert hits.get(point, 0) > 0, "recovery never gets there"
    recover(driver, wreck, tmp_path / "runs", (f"{point}:{hits[point]}", f"{point}:1", f"{point}:1"))


def test_recovery_killed_at_three_steps_converges(driver: Driver, wreck: Wreck, tmp_path: Path) -> None:
    triples = list(itertools.product(POINTS_PASSED, repeat=3))
    for triple in random.sample(triples, 8):
        recover(driver, wreck, tmp_path / "runs", tuple(f"{point}:1" for point in triple))


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", POINTS_PASSED)
def test_recovery_killed_at_any_three_steps_converges(
    first: str, driver: Driver, wreck: Wreck, tmp_path: Path
) -> None:
    once = Recovery.of(driver, wreck, tmp_path / "once")
    once.kill(f"{first}:1")
    for second in POINTS_PASSED:
        twice = once.fork(tmp_path / "twice")
        twice.kill(f"{second}:1")
        for third in POINTS_PASSED:
            thrice = twice.fork(tmp_path / "thrice")
            thrice.kill(f"{third}:1")
            thrice.finish()
        shutil.rmtree(twice.runs_dir)
