"""One owner at a time: a second is refused at once, and one that only sleeps is not robbed."""

import signal
import time
from pathlib import Path

import pytest

from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import lab
from tests.kit.crash.driver import Job
from tests.kit.crash.driving import Driver, Heard, open_driver
from tests.kit.crash.invariants import check_complete, check_dead
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=6, variants=1, replications=1, concurrency=2)
SLOW = make_trial_id("v0", "t3", 0)


def test_a_second_owner_is_refused_at_once_also_while_the_first_is_stopped(
    driver: Driver, tmp_path: Path
) -> None:
    experiment = str(write_scenario(tmp_path / "experiment", SHAPE))
    slow = Job(experiment=experiment, runs_dir=str(tmp_path), slow_trial=SLOW)
    job = Job(experiment=experiment, runs_dir=str(tmp_path))
    heard, paths = Heard(), RunPaths(tmp_path / RUN_ID)
    with open_driver() as second:
        owner = driver.start(slow, heard)
        driver.wait_finished(SHAPE.planned - 1)
        for state in ("awake", "stopped"):
            if state == "stopped":
                driver.send(signal.SIGSTOP)
            asked_at = time.monotonic()
            refused = second.run(job)
            assert time.monotonic() - asked_at < 1.0 + OVERHEAD_S
            assert refused.code == 2
            assert f"process {owner} " in refused.errors[0]
            assert refused.agents == []
        driver.send(signal.SIGCONT)
        driver.send(signal.SIGINT)
        assert driver.wait().code == 130
        check_dead(paths, heard)
        assert second.run(job, heard).code == 0
    check_dead(paths, heard)
    assert driver.run(Job(experiment=experiment, runs_dir=str(tmp_path / "undisturbed"))).code == 0
    check_complete(paths, tmp_path / "undisturbed" / RUN_ID)


OVERHEAD_S = 2.0
"""A fork and an experiment to be loaded, on a busy machine; the lock itself is asked for half a second."""


def test_the_command_line_says_who_owns_a_stopped_run(driver: Driver, tmp_path: Path) -> None:
    experiment = str(write_scenario(tmp_path / "experiment", SHAPE))
    owner = driver.start(Job(experiment=experiment, runs_dir=str(tmp_path / "runs"), slow_trial=SLOW))
    driver.wait_open()
    driver.send(signal.SIGSTOP)
    continued = lab("continue", RUN_ID, "--log-dir", "runs", cwd=tmp_path)
    retried = lab("retry", RUN_ID, "--log-dir", "runs", cwd=tmp_path)
    recovered = lab("log", "recover", RUN_ID, "--log-dir", "runs", cwd=tmp_path)
    listed = lab("log", "list", "--log-dir", "runs", "--json", cwd=tmp_path).json()
    driver.kill()
    assert (continued.code, retried.code, recovered.code) == (2, 2, 2)
    assert f"process {owner} " in continued.err
    assert [run["state"] for run in listed] == ["running"]
