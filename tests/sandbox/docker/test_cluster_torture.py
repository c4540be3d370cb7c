"""Random kills of workers, nodes and runners, with real containers on two engines."""

import asyncio
import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.cli.calling import LAB, environment, lab
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure
from tests.kit.executor.rayclusters import RayCluster

pytestmark = [pytest.mark.torture, pytest.mark.timeout(7200), pytest.mark.crash]

KILLS = int(os.environ.get("LAB_TORTURE_KILLS", "100"))
SEED = int(os.environ.get("LAB_TORTURE_SEED", "1"))
TASKS = 24
BAD_INPUT = 2
GRADER = 'sleep 0.5; echo \'{"verdict": "pass"}\' > "$$AGENTLAB_BENCHMARK_SCORE_PATH"'


class Tormented:
    """Runs of one experiment on two nodes, and whoever kills what carries them out."""

    def __init__(self, folder: Path, cluster: RayCluster, daemon: Daemon, image: str) -> None:
        self.folder, self.cluster, self.daemon = folder, cluster, daemon
        self.random = random.Random(SEED)
        self.kills: Counter[str] = Counter()
        self.folder.mkdir()
        experiment = {
            "schema": 1,
            "name": "torture",
            "tasks": [{"id": f"t{number}", "input": "x"} for number in range(TASKS)],
            "agent": {"command": "echo begun >> starts; sleep 2; echo done > answer"},
            "grader": {"command": GRADER},
            "sandbox": {"kind": "docker", "image": image, "memory_mb": 64, "cpus": 0.5},
            "min_free_disk_gb": 0,
            "keep": {"workspace": "always"},
            "executor": {"kind": "ray", "address": cluster.address, "per_node": 3},
        }
        (folder / "experiment.yaml").write_text(json.dumps(experiment))

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [LAB, *words], cwd=self.folder, env=environment(), stdout=said, stderr=said
            )

    def begin(self, run_id: str) -> "subprocess.Popen[bytes]":
        is_there = (self.folder / ".lab/runs" / run_id / "run.json").exists()
        return self.start("continue", run_id) if is_there else self.start("run", "--run-id", run_id)

    async def carry_out(self, run_id: str) -> None:
        """A run to its end, with kills on the way."""
        run = self.begin(run_id)
        while True:
            if not await self.has_ended(run, within_s=self.random.uniform(3, 12)):
                run = await self.kill(run, run_id)
            elif run.returncode == BAD_INPUT:  # a worker died while it was asked whether all is well
                assert "preflight: node on " in (self.folder / "said").read_text()
                run = self.begin(run_id)
            else:
                break
        assert run.returncode == 0, (self.folder / "said").read_text()[-4000:]

    async def has_ended(self, run: "subprocess.Popen[bytes]", within_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while run.poll() is None:
                    await asyncio.sleep(0.1)
        return run.poll() is not None

    async def kill(self, run: "subprocess.Popen[bytes]", run_id: str) -> "subprocess.Popen[bytes]":
        role = self.random.choice(["worker", "worker", "runner", "runner", "node"])
        if role == "runner":
            run.kill()
            run.wait()
            run = self.begin(run_id)
        elif role == "worker":
            workers = [pid for node in self.cluster.nodes.values() for pid in node.pids("ray::Worker")]
            if not workers:
                return run
            os.kill(self.random.choice(workers), signal.SIGKILL)
        else:
            await asyncio.to_thread(self.cluster.nodes["n2"].stop)
            await asyncio.to_thread(self.cluster.start, "n2", env={"DOCKER_HOST": self.daemon.url})
        self.kills[role] += 1
        return run

    def digest(self, run_id: str) -> str:
        lines = (self.folder / ".lab/runs" / run_id / "commits.jsonl").read_text().splitlines()
        assert len(lines) == TASKS
        return str(json.loads(lines[-1])["chain"])


@pytest_asyncio.fixture
async def tormented(tmp_path: Path) -> AsyncIterator[Tormented]:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    daemon, cluster = Daemon(live_restore=False), RayCluster.make()
    engines = (Engine(), Engine(daemon.url))
    try:
        await daemon.start()
        images = [await ensure(engine, ASH) for engine in engines]
        await asyncio.to_thread(cluster.start, "n1")
        await asyncio.to_thread(cluster.start, "n2", env={"DOCKER_HOST": daemon.url})
        yield Tormented(tmp_path / "w", cluster, daemon, images[0])
        for engine in engines:
            assert [each for each in await engine.list("labrunner.run") if _is_ours(each.labels)] == []
    finally:
        await asyncio.to_thread(cluster.close)
        for engine in engines:
            await engine.close()
        await daemon.destroy()


def _is_ours(labels: object) -> bool:
    return "torture-" in str(labels)


async def test_nothing_is_lost_doubled_or_left(tormented: Tormented) -> None:
    here = lab("run", "--run-id", "here", "--executor", "local", cwd=tormented.folder, timeout=600)
    assert here.code == 0, here.err
    number = 0
    while sum(tormented.kills.values()) < KILLS:
        run_id = f"torture-{number}"
        await tormented.carry_out(run_id)
        assert tormented.digest(run_id) == tormented.digest("here")
        starts = (tormented.folder / ".lab/runs" / run_id / "trials").glob("*/1/workspace/starts")
        assert [path.read_text() for path in starts] == ["begun\n"] * TASKS
        assert list(tormented.cluster.nodes_dir.glob(f"*/runs/{run_id}-*/trials/*/*")) == []
        number += 1
    print(f"kills: {dict(tormented.kills)} in {number} runs, seed {SEED}")
