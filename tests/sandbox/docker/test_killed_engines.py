"""Whole runs whose engine is killed and started again: none of it is ever counted as an agent's failure."""

import asyncio
import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.cli.calling import LAB
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure

pytestmark = [
    pytest.mark.crash,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="starting an engine needs root"),
]

EXPERIMENT = """
name: outage
tasks: tasks.jsonl
agent: {{command: "sleep 0.2; echo done > answer", timeout_s: 60}}
grader:
  command: >-
    grep -q done answer && echo '{{"verdict": "pass"}}' > $$AGENTLAB_BENCHMARK_SCORE_PATH
  timeout_s: 60
sandbox: {{kind: docker, image: "{image}", memory_mb: 64, cpus: 1}}
max_concurrency: {concurrency}
min_free_disk_gb: 0
fail_on_error: false
"""


async def run_through_outages(
    folder: Path, *, trials: int, concurrency: int, kills: int
) -> list[dict[str, object]]:
    """Run with an engine that is killed whenever another part of the trials is done; the trials' rows."""
    daemon = Daemon(live_restore=False)
    try:
        await daemon.start()
        engine = Engine(daemon.url)
        image = await ensure(engine, ASH)
        (folder / "experiment.yaml").write_text(EXPERIMENT.format(image=image, concurrency=concurrency))
        tasks = "".join(json.dumps({"id": f"t{n}", "input": n}) + "\n" for n in range(trials))
        (folder / "tasks.jsonl").write_text(tasks)
        env = {**os.environ, "DOCKER_HOST": daemon.url}
        argv = [LAB, "run", "--run-id", "the-run"]
        run = subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        rows = folder / ".lab" / "runs" / "the-run" / "facts" / "trials.jsonl"
        for number in range(1, kills + 1):
            await wait_for_rows(rows, trials * number // (kills + 2), run)
            daemon.kill()
            await asyncio.sleep(1)
            await daemon.start()
        _, told = await asyncio.to_thread(run.communicate)
        assert run.returncode == 0, told.decode()[-3000:]
        assert [each.name for each in await engine.list("labrunner.nonce")] == []
        await engine.close()
        return [json.loads(line) for line in rows.read_text().splitlines()]
    finally:
        await daemon.destroy()


async def wait_for_rows(rows: Path, wanted: int, run: "subprocess.Popen[bytes]") -> None:
    while not rows.exists() or len(rows.read_bytes().splitlines()) < wanted:
        assert run.poll() is None, run.stderr and run.stderr.read().decode()
        await asyncio.sleep(0.05)


def check(rows: list[dict[str, object]], *, trials: int, in_flight: int) -> None:
    """Only what was in flight at a kill may have failed: whoever comes later waits for the engine."""
    ends = Counter((row["outcome"], row["verdict"], row["cause"]) for row in rows)
    assert sum(ends.values()) == trials
    assert set(ends) <= {("graded", "pass", None), ("failed", None, "sandbox")}, ends
    assert ends["failed", None, "sandbox"] <= in_flight, ends


@pytest.mark.timeout(240)
async def test_an_engine_killed_in_the_middle_of_a_run(tmp_path: Path) -> None:
    rows = await run_through_outages(tmp_path, trials=16, concurrency=4, kills=1)
    check(rows, trials=16, in_flight=4)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_two_hundred_trials_through_two_outages(tmp_path: Path) -> None:
    rows = await run_through_outages(tmp_path, trials=200, concurrency=16, kills=2)
    check(rows, trials=200, in_flight=2 * 16)
