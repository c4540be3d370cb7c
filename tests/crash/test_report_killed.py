"""`lab log recover` killed at each of its steps: the run is never in danger, and the next try succeeds."""

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import list_runs
from tests.kit.crash.driver import Job
from tests.kit.crash.driving import Driver, Heard
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario
from tests.kit.runner.running import committed_bytes

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=3, variants=2, replications=2)
STEPS = [
    *("recover.begun", "create.written", "create.renamed", "open.done"),
    *("commit.rows_appended", "commit.line_synced", "summary.done", "status.renamed"),
    *("recover.written", "recover.renamed", "recover.done"),
]
Action = Literal["recover", "overwrite"]


@pytest.fixture(scope="module")
def crashed(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that died with slot 0 under way and all the others in the buffer."""
    folder = tmp_path_factory.mktemp("crashed")
    experiment = str(write_scenario(folder / "experiment", SHAPE))
    driver.start(
        Job(experiment=experiment, runs_dir=str(folder / "runs"), slow_trial=make_trial_id("v0", "t0", 0))
    )
    driver.wait_finished(SHAPE.planned - 1)
    driver.kill()
    return folder / "runs"


@pytest.fixture(scope="module")
def report(driver: Driver, crashed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an undisturbed recovery makes of it, the run's name left out."""
    runs_dir = tmp_path_factory.mktemp("report") / "runs"
    shutil.copytree(crashed, runs_dir)
    heard = driver.run(Job(experiment="", runs_dir=str(runs_dir), action="overwrite"))
    assert heard.code == 0, heard.errors
    recovered, owed, damaged = map(int, heard.told["recovered"][0].split())
    failed = owed - 1  # slot 0 was never finished; the others ended with an error
    assert (recovered, damaged) == (SHAPE.planned - 1, 0)
    assert 0 <= failed < SHAPE.planned
    return committed_bytes(runs_dir / RUN_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Recoveries of copies of one crashed run."""

    driver: Driver
    crashed: Path
    report: dict[str, bytes]
    runs_dir: Path

    def kill(self, action: Action, steps: tuple[str, ...]) -> None:
        """Kill one recovery after another, each at its step; then make the report."""
        shutil.copytree(self.crashed, self.runs_dir)
        original = committed_bytes(self.runs_dir / RUN_ID)
        place = self.runs_dir / (RUN_ID if action == "overwrite" else f"{RUN_ID}-recovered")
        for step in steps:
            killed = self._recover(action, die_at=f"{step}:1")
            assert killed.code in {-9, 2}, killed.told  # 2: the report is there already
            assert committed_bytes(self.runs_dir / RUN_ID) in (original, self.report)
            assert verify(RunPaths(self.runs_dir / RUN_ID)).problems == ()
            assert {run.run_id for run in list_runs(self.runs_dir)} <= {RUN_ID, place.name}
        assert self._recover(action).code in {0, 2}
        assert verify(RunPaths(place)).problems == ()
        assert _without_offsets(committed_bytes(place), place.name) == _without_offsets(self.report, RUN_ID)
        shutil.rmtree(self.runs_dir)

    def _recover(self, action: Action, die_at: str | None = None) -> Heard:
        job = Job(experiment="", runs_dir=str(self.runs_dir), action=action, die_at=die_at)
        return self.driver.run(job)


@pytest.fixture
def recovery(driver: Driver, crashed: Path, report: dict[str, bytes], tmp_path: Path) -> Recovery:
    return Recovery(driver=driver, crashed=crashed, report=report, runs_dir=tmp_path / "runs")


@pytest.mark.parametrize("action", ["recover", "overwrite"])
def test_a_recovery_killed_at_every_step_makes_the_same_report(action: Action, recovery: Recovery) -> None:
    for first in range(0, len(STEPS), 3):
        recovery.kill(action, tuple(STEPS[first : first + 3]))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("action", ["recover", "overwrite"])
def test_a_recovery_killed_at_any_three_steps_makes_the_same_report(
    action: Action, recovery: Recovery
) -> None:
    for steps in itertools.product(STEPS, repeat=3):
        recovery.kill(action, steps)


def _without_offsets(files: dict[str, bytes], run_id: str) -> dict[str, bytes]:
    """Rows with their run's name blanked; the journal's offsets depend on how long it is."""
    return {name: data.replace(run_id.encode(), b"") for name, data in files.items() if "commits" not in name}


def test_a_report_is_never_overwritten(driver: Driver, crashed: Path, tmp_path: Path) -> None:
    shutil.copytree(crashed, tmp_path / "runs")
    job = Job(experiment="", runs_dir=str(tmp_path / "runs"), action="recover")
    assert driver.run(job).code == 0
    again = driver.run(job)
    assert again.code == 2
    assert "exists already" in again.errors[0]
