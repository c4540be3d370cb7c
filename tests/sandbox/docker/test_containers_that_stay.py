"""Containers that stay: kept for a look, or left by a crash; what finds and removes them."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import KEPT, PLACE
from labrunner.sandbox.marks import RunMark
from tests.kit.cli.calling import LAB
from tests.kit.docker.traces import containers_of

EXPERIMENT = """
name: cleaning
tasks: [{{id: good, input: pass}}, {{id: bad, input: fail}}]
agent: {{command: "grep -q fail $task_path && v=fail || v=pass; echo $$v > verdict; {then}"}}
grader: {{command: "echo '{{\\"verdict\\": \\"'$$(cat verdict)'\\"}}' > $$AGENTLAB_BENCHMARK_SCORE_PATH"}}
sandbox: {{kind: docker, image: "{image}", memory_mb: 64}}
min_free_disk_gb: 0
"""


class Lab:
    def __init__(self, folder: Path, image: str, then: str = ":") -> None:
        self.folder = folder
        (folder / "experiment.yaml").write_text(EXPERIMENT.format(image=image, then=then))

    @property
    def run(self) -> Path:
        return self.folder / ".lab/runs/the-run"

    def __call__(self, *argv: str) -> str:
        done = subprocess.run([LAB, *argv], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def containers(self) -> list[str]:
        return asyncio.run(containers_of(self.run))


@pytest.fixture
def lab(tmp_path: Path, ash: str) -> Lab:
    return Lab(tmp_path, ash)


def test_a_kept_container_stays_until_it_is_cleaned(lab: Lab) -> None:
    lab("run", "--run-id", "the-run", "--keep-sandbox", "failed")
    (name,) = lab.containers()
    assert name.startswith(KEPT)
    assert json.loads(lab("clean", "--list", "--json"))[0]["what"] == "container"
    assert lab.containers() == [name]
    lab("clean", "--yes")
    assert lab.containers() == []


def test_nothing_stays_unless_asked_for(lab: Lab) -> None:
    lab("run", "--run-id", "the-run")
    assert lab.containers() == []


@pytest.mark.crash
def test_an_ended_container_of_a_run_that_was_removed_is_found_from_anywhere(
    lab: Lab, tmp_path: Path, ash: str
) -> None:
    lab("run", "--run-id", "the-run", "--keep-sandbox", "failed")
    place = RunMark.of(lab.run, "the-run").place
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Lab(elsewhere, ash)
    assert str(lab.run) not in other("clean", "--list")
    shutil.rmtree(lab.run)
    told = other("clean", "--list")
    assert f"run the-run of {lab.run}, which is gone: 1 x container" in told
    other("clean", "--yes")
    assert asyncio.run(list_place(place)) == []


async def list_place(place: str) -> list[str]:
    engine = Engine()
    try:
        return [each.name for each in await engine.list(f"{PLACE}={place}")]
    finally:
        await engine.close()


@pytest.mark.crash
def test_a_container_that_can_be_adopted_is_not_cleaned_unless_its_run_is_given_up(
    tmp_path: Path, ash: str
) -> None:
    lab = Lab(tmp_path, ash, then="touch /agentlab/state/here; sleep 60")
    runner = subprocess.Popen([LAB, "run", "--run-id", "the-run"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    while len(list(lab.run.glob("trials/*/1/state/here"))) < 2:
        assert runner.poll() is None
        os.waitid(os.P_PID, runner.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert len(lab.containers()) == 2
    lab("clean", "--yes")
    assert len(lab.containers()) == 2
    lab("clean", "--abandon", "the-run", "--yes")
    assert lab.containers() == []
