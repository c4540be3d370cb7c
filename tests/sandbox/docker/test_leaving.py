"""Runs that are told to stop: in order, in a hurry, at once, and with an engine that does not answer."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.sandbox.docker.engine.client import FAREWELL_S, Engine
from tests.kit.cli.calling import LAB
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure
from tests.kit.docker.traces import containers_of

SLACK_S = 15
"""What a loaded machine may need beside the limits themselves."""
EXPERIMENT = """
name: leaving
tasks: [{{id: a, input: 1}}, {{id: b, input: 2}}]
agent: {{command: "touch /agentlab/state/here; sleep 300", timeout_s: 600}}
grader: {{command: "true"}}
sandbox: {{kind: docker, image: "{image}", memory_mb: 64}}
max_concurrency: 2
min_free_disk_gb: 0
"""


def start(folder: Path, image: str, url: str | None = None) -> "subprocess.Popen[str]":
    (folder / "experiment.yaml").write_text(EXPERIMENT.format(image=image))
    env = {**os.environ, **({"DOCKER_HOST": url} if url else {})}
    runner = subprocess.Popen(
        [LAB, "run", "--run-id", "the-run"],
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(list(folder.glob(".lab/runs/the-run/trials/*/1/state/here"))) < 2:
        assert runner.poll() is None, runner.stderr and runner.stderr.read()
        time.sleep(0.02)
    return runner


def end(runner: "subprocess.Popen[str]", within_s: float) -> str:
    _, told = runner.communicate(timeout=within_s)
    assert runner.returncode == 130, told
    return told


@pytest_asyncio.fixture
async def daemon() -> AsyncIterator[Daemon]:
    if os.geteuid() != 0:
        pytest.skip("starting an engine needs root")
    daemon = Daemon(live_restore=False)
    await daemon.start()
    yield daemon
    await daemon.destroy()


@pytest.mark.crash
@pytest.mark.root
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_an_engine_that_does_not_answer_does_not_hold_up_the_end(
    daemon: Daemon, tmp_path: Path, how: str
) -> None:
    engine = Engine(daemon.url)
    runner = await asyncio.to_thread(start, tmp_path, await ensure(engine, ASH), daemon.url)
    await engine.close()
    if how == "killed":
        daemon.kill()
    else:
        daemon.pause()
    try:
        runner.send_signal(signal.SIGINT)
        await asyncio.sleep(1)
        runner.send_signal(signal.SIGINT)
        told = await asyncio.to_thread(end, runner, FAREWELL_S + SLACK_S)
    finally:
        if how == "stopped":
            daemon.go_on()
        runner.kill()
        runner.wait()
    assert told.count("left without it: containers may go on") == 1
    assert "lab clean --abandon" in told


@pytest.mark.crash
def test_what_is_left_at_once_is_told_and_found(tmp_path: Path, ash: str) -> None:
    runner = start(tmp_path, ash)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # equal ones would merge
        runner.send_signal(number)
    told = end(runner, SLACK_S)
    run = tmp_path / ".lab/runs/the-run"
    assert (
        "to go on: lab continue the-run; to give up what was under way: lab clean --abandon the-run" in told
    )
    assert len(asyncio.run(containers_of(run))) == 2

    clean = subprocess.run([LAB, "clean", "--list"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "the-run: 2 containers with work that can be gone on with: lab continue the-run" in clean.stdout
    assert "to give that up, and remove them: lab clean --abandon the-run" in clean.stdout
    given_up = [LAB, "clean", "--abandon", "the-run", "--yes"]
    subprocess.run(given_up, cwd=tmp_path, check=True, capture_output=True)
    assert asyncio.run(containers_of(run)) == []
