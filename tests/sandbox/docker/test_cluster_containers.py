"""Containers on two nodes, each with an engine of its own: whoever dies, no agent runs a second time."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.cli.calling import LAB, environment, lab
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure
from tests.kit.executor.rayclusters import RayCluster

pytestmark = [pytest.mark.timeout(400), pytest.mark.crash]

AGENT = "echo begun >> starts; touch begun; while [ ! -e go ]; do sleep 0.1; done; echo done > answer"
GRADER = 'echo \'{"verdict": "pass"}\' > "$AGENTLAB_BENCHMARK_SCORE_PATH"'
TASKS = 6
AT_ONCE = 4


class Containers:
    """An experiment in containers, and the two nodes that have them."""

    def __init__(self, folder: Path, cluster: RayCluster, engines: tuple[Engine, ...]) -> None:
        self.folder, self.cluster, self.engines = folder, cluster, engines

    def write(self, image: str) -> None:
        self.folder.mkdir()
        experiment = {
            "schema": 1,
            "name": "containers",
            "tasks": [{"id": f"t{number}", "input": "x"} for number in range(TASKS)],
            "agent": {"command": AGENT},
            "grader": {"command": GRADER.replace("$", "$$")},
            "sandbox": {"kind": "docker", "image": image, "memory_mb": 64, "cpus": 0.5},
            "min_free_disk_gb": 0,
            "keep": {"workspace": "always"},
            "executor": {"kind": "ray", "address": self.cluster.address, "per_node": AT_ONCE // 2},
        }
        (self.folder / "experiment.yaml").write_text(json.dumps(experiment))

    def begin(self, run_id: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(
                [LAB, "run", "--run-id", run_id],
                cwd=self.folder,
                env=environment(),
                stdout=said,
                stderr=said,
            )

    def workspaces(self, run_id: str) -> list[Path]:
        found = self.cluster.nodes_dir.glob(f"*/runs/{run_id}-*/trials/*/1/workspace/begun")
        return [path.parent for path in found]

    async def until_begun(self, run_id: str) -> list[Path]:
        async with asyncio.timeout(200):
            while len(begun := self.workspaces(run_id)) < AT_ONCE:
                await asyncio.sleep(0.1)
        return begun

    async def let_go(self, run_id: str, ended: "asyncio.Future[Any]") -> None:
        """Have every agent go on, those that begin later, too."""
        while not ended.done():
            for workspace in self.workspaces(run_id):
                (workspace / "go").touch()
            await asyncio.sleep(0.1)

    def timings(self, run_id: str) -> list[dict[str, Any]]:
        lines = (self.folder / ".lab/runs" / run_id / "facts/timings.jsonl").read_text().splitlines()
        return [attempt for line in lines for attempt in json.loads(line)["attempts"]]

    async def left(self, run_id: str) -> int:
        return sum([len(await engine.list(f"labrunner.run={run_id}")) for engine in self.engines])

    def starts(self, run_id: str) -> list[str]:
        """What each agent wrote down when it began: in what it left, whoever ran it."""
        trials = (self.folder / ".lab/runs" / run_id / "trials").glob("*/1*/workspace/starts")
        return [path.read_text() for path in trials]


@pytest_asyncio.fixture
async def containers(tmp_path: Path) -> AsyncIterator[Containers]:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    daemon, cluster = Daemon(live_restore=False), RayCluster.make()
    own, other = Engine(), Engine(daemon.url)
    try:
        await daemon.start()
        image = await ensure(own, ASH)
        assert await ensure(other, ASH) == image
        await asyncio.to_thread(cluster.start, "n1")
        await asyncio.to_thread(cluster.start, "n2", env={"DOCKER_HOST": daemon.url})
        made = Containers(tmp_path / "w", cluster, (own, other))
        made.write(image)
        yield made
    finally:
        await asyncio.to_thread(cluster.close)
        await own.close()
        await other.close()
        await daemon.destroy()


async def test_containers_outlive_their_worker_and_their_runner(containers: Containers) -> None:
    run = containers.begin("c")
    try:
        begun = await containers.until_begun("c")
        assert len({path.relative_to(containers.cluster.nodes_dir).parts[0] for path in begun}) == 2
        (worker,) = containers.cluster.nodes["n2"].pids("ray::Worker")
        os.kill(worker, signal.SIGKILL)
        async with asyncio.timeout(100):
            while containers.cluster.nodes["n2"].pids("ray::Worker") in ([], [worker]):
                await asyncio.sleep(0.1)
        assert sorted(containers.workspaces("c")) == sorted(begun)
    finally:
        run.kill()
        run.wait()
    going_on = asyncio.ensure_future(
        asyncio.to_thread(lab, "continue", "c", cwd=containers.folder, timeout=300)
    )
    await containers.let_go("c", going_on)
    done = going_on.result()
    assert done.code == 0, done.err
    adopted = [each["node"] for each in containers.timings("c") if each.get("adopted")]
    assert sorted(adopted) == ["n1", "n1", "n2", "n2"]
    assert containers.starts("c") == ["begun\n"] * TASKS
    assert await containers.left("c") == 0
    assert containers.workspaces("c") == []
