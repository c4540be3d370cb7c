"""Results that wait behind a slow trial: paid for, and kept whatever happens."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.upkeep.cleaning import BUFFER_KEPT_S, remove_spent_buffers
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.single_records import read_status
from tests.kit.cli.calling import AGENT_SHOUTS, LAB, environment, lab, write_experiment
from tests.kit.crash.driver import Job, digest_slot
from tests.kit.crash.driving import Driver, Heard
from tests.kit.crash.invariants import check_complete, check_dead
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario
from tests.kit.waiting import wait_for

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=101, variants=1, replications=1)
FIRST = make_trial_id("v0", "t0", 0)
FOUR_DAYS_S = 4 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A run that was stopped with slot 0 under way and 100 results behind it."""

    experiment: str
    runs_dir: Path
    heard: Heard


@pytest.fixture(scope="module")
def stopped(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    folder = tmp_path_factory.mktemp("stopped")
    experiment = str(write_scenario(folder / "experiment", SHAPE))
    driver.start(Job(experiment=experiment, runs_dir=str(folder / "runs"), slow_trial=FIRST))
    driver.wait_finished(SHAPE.planned - 1)
    driver.send(signal.SIGINT)
    heard = driver.wait()
    assert heard.code == 130
    return Stopped(experiment=experiment, runs_dir=folder / "runs", heard=heard)


@pytest.fixture
def runs_dir(stopped: Stopped, tmp_path: Path) -> Path:
    shutil.copytree(stopped.runs_dir, tmp_path / "runs")
    return tmp_path / "runs"


def test_four_days_later_the_hundred_are_still_there_and_none_is_run_again(
    driver: Driver, stopped: Stopped, runs_dir: Path, tmp_path: Path
) -> None:
    paths, heard = RunPaths(runs_dir / RUN_ID), stopped.heard
    status = read_status(paths)
    assert status is not None
    assert (status.status, status.counts.committed, status.counts.buffered) == ("cancelled", 0, 100)
    check_dead(paths, heard)
    remove_spent_buffers(runs_dir, now=time.time() + FOUR_DAYS_S)

    later = driver.run(Job(experiment=stopped.experiment, runs_dir=str(runs_dir)))
    assert later.code == 0
    assert [trial for trial, _ in later.agents] == [FIRST]
    assert later.told["lost"] == []
    present = {rows.schedule_idx: digest_slot(rows) for rows in iter_finished(paths)}
    assert heard.finished.items() <= present.items()  # every field of every row, times included
    assert driver.run(Job(experiment=stopped.experiment, runs_dir=str(tmp_path / "undisturbed"))).code == 0
    check_complete(paths, tmp_path / "undisturbed" / RUN_ID)


def test_a_spent_buffer_goes_after_three_days_and_not_before(
    driver: Driver, stopped: Stopped, runs_dir: Path
) -> None:
    assert driver.run(Job(experiment=stopped.experiment, runs_dir=str(runs_dir))).code == 0
    buffer = RunPaths(runs_dir / RUN_ID).buffer
    for seconds, is_kept in ((BUFFER_KEPT_S - 60, True), (BUFFER_KEPT_S + 60, False)):
        remove_spent_buffers(runs_dir, now=time.time() + seconds)
        assert buffer.exists() is is_kept


def delete(paths: RunPaths) -> None:
    for path in paths.root.glob("buffer.sqlite*"):
        path.unlink()


def overwrite(paths: RunPaths) -> None:
    delete(paths)
    paths.buffer.write_bytes(b"no database " * 1000)


@pytest.mark.parametrize("harm", [delete, overwrite])
def test_without_its_buffer_a_run_goes_on_and_says_what_was_lost(
    harm: Callable[[RunPaths], None], driver: Driver, stopped: Stopped, runs_dir: Path
) -> None:
    paths = RunPaths(runs_dir / RUN_ID)
    harm(paths)
    lost = "100 finished results that were not committed are lost"

    planned = lab("retry", RUN_ID, "--dry-run", "--log-dir", str(runs_dir), cwd=runs_dir)
    assert planned.code == 0, planned.err
    assert lost in planned.err
    assert "0 trials taken over, 101 to run" in planned.err

    heard = driver.run(Job(experiment=stopped.experiment, runs_dir=str(runs_dir)))
    assert heard.code == 0
    assert lost in heard.told["lost"][0]
    check_dead(paths, heard)


WAITS_FOR_A_SIGN = """
import os, pathlib, time
sign = pathlib.Path(os.environ["SIGN"])
while os.environ["AGENTLAB_TASK_ID"] == "t0" and not sign.exists():
    time.sleep(0.01)
"""


def test_the_command_line_says_what_a_crash_left(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    write_experiment(tmp_path / "e", agent=WAITS_FOR_A_SIGN + AGENT_SHOUTS, extra="max_concurrency: 2\n")
    words = ("--run-id", "x", "--log-dir", "runs", "--env", f"SIGN={sign}")
    process = subprocess.Popen(
        [LAB, "run", *words], cwd=tmp_path / "e", env=environment(), stderr=subprocess.DEVNULL
    )
    paths = RunPaths(tmp_path / "e/runs/x")
    wait_for(lambda: paths.status.exists() and b'"buffered":2' in paths.status.read_bytes())
    process.kill()
    process.wait()
    delete(paths)
    with paths.trials.open("ab") as file:
        file.write(b'{"schedule')
    sign.touch()

    going_on = lab("continue", "x", "--log-dir", "runs", cwd=tmp_path / "e")

    assert going_on.code == 0, going_on.err
    assert "cut off and kept in salvage/: 10 bytes of facts/trials.jsonl" in going_on.err
    assert "2 finished results that were not committed are lost" in going_on.err
