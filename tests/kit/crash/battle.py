"""A run on a cluster whose nodes have containers of two engines, and who kills those that carry it out."""

import asyncio
import glob
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.cli.calling import LAB, environment, lab
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure
from tests.kit.executor.rayclusters import RayCluster

AGENT: Final = "cat /proc/sys/kernel/random/uuid >> begun; sleep 2; echo done > answer"
GRADER: Final = 'echo \'{"verdict": "pass"}\' > "$$AGENTLAB_BENCHMARK_SCORE_PATH"'
BEGUN: Final = "runs/*/trials/*/*/workspace/begun"
PER_NODE: Final = 3
_PATIENT: Final = {"RAY_raylet_start_wait_time_s": "90"}
"""Nodes come and go all the time: it is a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Living:
    """An agent that worked in a container when who was at it died."""

    node: str
    begun: str
    """What it wrote when it began: nobody else writes the same."""


@dataclass(slots=True, kw_only=True)
class Battle:
    """A run, who carries it out, and who has been killed."""

    folder: Path
    cluster: RayCluster
    names: tuple[str, ...]
    """Of the nodes; the first is the head."""
    engines: dict[str, Daemon]
    """Of each node."""
    tasks: int
    dice: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    lived: dict[str, Living] = field(default_factory=dict)
    """By trial, agents that are not to be run again."""
    returned_at: dict[str, float] = field(default_factory=dict)
    """When each node was there again."""
    runner: "subprocess.Popen[bytes] | None" = None

    def write(self, image: str) -> None:
        """Write the experiment."""
        self.folder.mkdir()
        experiment = {
            "schema": 1,
            "name": "battle",
            "tasks": [{"id": f"t{number}", "input": "x"} for number in range(self.tasks)],
            "agent": {"command": AGENT},
            "grader": {"command": GRADER},
            "sandbox": {"kind": "docker", "image": image, "memory_mb": 64, "cpus": 0.5},
            "min_free_disk_gb": 0,
            "keep": {"workspace": "always"},
            "executor": {"kind": "ray", "address": self.cluster.address, "per_node": PER_NODE},
        }
        (self.folder / "experiment.yaml").write_text(json.dumps(experiment))

    def run_here(self) -> str:
        """The digest of a run on this machine, where nobody dies."""
        words = ("run", "--run-id", "here", "--executor", "local", "--max-concurrency", "12")
        here = lab(*words, cwd=self.folder, env=self.engine_here(), timeout=600)
        assert here.code == 0, here.err
        return str(self.read_commits("here")[-1]["chain"])

    def start_nodes(self) -> None:
        """Start a cluster, in place of the one that was there."""
        self.cluster.nodes.clear()
        for name in self.names:
            self._start_node(name)

    def _start_node(self, name: str) -> None:
        self.cluster.start(name, env=_PATIENT | {"DOCKER_HOST": self.engines[name].url})
        self.returned_at[name] = time.time()

    def begin(self, run_id: str) -> "subprocess.Popen[bytes]":
        """Begin a run, or go on with it."""
        is_there = (self.run_dir(run_id) / "run.json").exists()
        with self.said(run_id).open("ab") as said:
            self.runner = subprocess.Popen(
                [LAB, *(("continue", run_id) if is_there else ("run", "--run-id", run_id))],
                cwd=self.folder,
                env=environment(**self.engine_here()),
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        return self.runner

    def engine_here(self) -> dict[str, str]:
        """The engine of who is on this machine, which is the head."""
        return {"DOCKER_HOST": self.engines[self.names[0]].url}

    def run_dir(self, run_id: str) -> Path:
        """Where a run lies."""
        return self.folder / ".lab/runs" / run_id

    def said(self, run_id: str) -> Path:
        """What its runners wrote on their standard error."""
        return self.folder / f"{run_id}.err"

    def read_commits(self, run_id: str) -> list[dict[str, Any]]:
        """The lines of a run's journal."""
        return [
            json.loads(line) for line in (self.run_dir(run_id) / "commits.jsonl").read_text().splitlines()
        ]

    def read_status(self, run_id: str) -> dict[str, Any]:
        """How a run stands, as it says itself."""
        status: dict[str, Any] = json.loads((self.run_dir(run_id) / "status.json").read_text())
        return status

    def progress(self, run_id: str) -> tuple[int, frozenset[str]]:
        """How far a run is: trials that are committed, agents that have begun and are not home yet."""
        journal = self.run_dir(run_id) / "commits.jsonl"
        committed = journal.read_bytes().count(b"\n") if journal.exists() else 0
        # Folders come and go meanwhile: this glob leaves out what has gone.
        begun = [path for name in self.names for path in glob.glob(f"{self.cluster.node_dir(name)}/{BEGUN}")]
        return committed, frozenset(begun)

    async def kill(self, role: str) -> None:
        """Kill somebody of a role, and start again what does not come back by itself."""
        await ROLES[role](self)
        self.killed[role] += 1

    async def kill_worker(self) -> None:
        """A node's worker: the coordinator has another one started."""
        await self.look_who_lives()
        for pid in self.cluster.nodes[self.dice.choice(self.names)].pids("ray::Worker")[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def kill_coordinator(self) -> None:
        """`lab` itself."""
        assert self.runner is not None
        await self.look_who_lives()
        self.runner.kill()
        await asyncio.to_thread(self.runner.wait)

    async def kill_raylet(self) -> None:
        """What holds a node together: its worker outlives it for a moment."""
        name = self.dice.choice(self.names[1:])
        self._give_up(name)
        self.cluster.nodes[name].kill_raylet()
        await asyncio.sleep(self.dice.uniform(0, 2))
        await self._start_again(name)

    async def kill_node(self) -> None:
        """All of a node at once."""
        name = self.dice.choice(self.names[1:])
        self._give_up(name)
        self.cluster.nodes[name].stop()
        await asyncio.sleep(self.dice.uniform(0, 2))
        await self._start_again(name)

    async def kill_head(self) -> None:
        """The head, where the coordinator is, and with it the cluster: a new one takes its place."""
        assert self.runner is not None
        self.lived.clear()
        self.runner.kill()
        await asyncio.to_thread(self.runner.wait)
        for node in self.cluster.nodes.values():
            await asyncio.to_thread(node.stop)
        await asyncio.to_thread(self.start_nodes)

    async def _start_again(self, name: str) -> None:
        await asyncio.to_thread(self.cluster.nodes[name].stop)
        await asyncio.to_thread(self._start_node, name)

    def _give_up(self, name: str) -> None:
        """What lives on a node that is lost is not to be counted on any more."""
        self.lived = {trial: each for trial, each in self.lived.items() if each.node != name}

    async def look_who_lives(self) -> None:
        """Note which agents work in containers: whoever dies but their node, they are not to be run again."""
        for daemon in self.daemons:
            async with opened(daemon) as engine:
                trials = [each.labels["labrunner.trial"] for each in await engine.list("labrunner.trial")]
            for name in (name for name in self.names if self.engines[name] is daemon):
                self.lived |= {trial: each for trial in trials for each in self._read_begun(name, trial)}

    def _read_begun(self, name: str, trial: str) -> list[Living]:
        """What an agent wrote that has begun on a node since that is there; whole lines only."""
        found: list[Living] = []
        for path in map(
            Path, glob.glob(f"{self.cluster.node_dir(name)}/runs/*/trials/{trial}/*/workspace/begun")
        ):
            with suppress(FileNotFoundError):
                begun, is_since = path.read_text(), path.stat().st_mtime > self.returned_at[name]
                if is_since and begun.endswith("\n"):  # else it is a stray, or has hardly begun
                    found += [Living(node=name, begun=line) for line in begun.split()]
        return found

    @property
    def daemons(self) -> list[Daemon]:
        """Each engine once."""
        return list({daemon.url: daemon for daemon in self.engines.values()}.values())

    async def check(self, run_id: str, chain: str) -> None:
        """Nothing lost, nothing doubled, nothing left."""
        lines = self.read_commits(run_id)
        assert len({line["trial_id"] for line in lines}) == len(lines) == self.tasks
        assert lines[-1]["chain"] == chain
        verified = lab("verify", run_id, cwd=self.folder)
        assert verified.code == 0, verified.out + verified.err
        for trial in (self.run_dir(run_id) / "trials").iterdir():
            (begun,) = [path.read_text().split() for path in trial.glob("[0-9]/workspace/begun")]
            assert len(begun) == 1, f"{trial.name}: its agent was run twice in one place: {begun}"
            if (living := self.lived.get(trial.name)) is not None:
                assert begun == [living.begun], f"{trial.name}: its container lived on {living.node}"
        await self._check_places(run_id)

    async def _check_places(self, run_id: str) -> None:
        """What is left on nodes that were there when the run ended: the others nobody could sweep."""
        ended_at = datetime.fromisoformat(self.read_status(run_id)["ended_at"]).timestamp()
        there = [name for name in self.names if self.returned_at[name] < ended_at - 5]
        left = {name: glob.glob(f"{self.cluster.node_dir(name)}/runs/{run_id}-*/trials/*") for name in there}
        assert not any(left.values()), left
        for daemon in self.daemons:
            async with opened(daemon) as engine:
                found = await engine.list(f"labrunner.run={run_id}")
                if all(name in there for name in self.names if self.engines[name] is daemon):
                    assert found == (), f"left of {run_id}: {[each.labels for each in found]}"
                for each in found:
                    await engine.remove(each.id)


ROLES: Final[dict[str, Callable[[Battle], Awaitable[None]]]] = {
    "worker": Battle.kill_worker,
    "coordinator": Battle.kill_coordinator,
    "raylet": Battle.kill_raylet,
    "node": Battle.kill_node,
    "head": Battle.kill_head,
}


@asynccontextmanager
async def opened(daemon: Daemon) -> AsyncIterator[Engine]:
    """An engine, while it is asked."""
    engine = Engine(daemon.url)
    try:
        yield engine
    finally:
        await engine.close()


async def _start_engine(daemon: Daemon) -> str:
    await daemon.start()
    async with opened(daemon) as engine:
        return await ensure(engine, ASH)


@asynccontextmanager
async def prepared(folder: Path, names: tuple[str, ...], *, tasks: int, seed: int) -> AsyncIterator[Battle]:
    """Two engines with the image, and nodes: the last one has an engine of its own."""
    first, second = Daemon(live_restore=False), Daemon(live_restore=False)
    cluster = RayCluster.make()
    engines = {name: second if name == names[-1] else first for name in names}
    battle = Battle(
        folder=folder, cluster=cluster, names=names, engines=engines, tasks=tasks, dice=random.Random(seed)
    )
    try:
        nodes = asyncio.ensure_future(asyncio.to_thread(battle.start_nodes))
        try:
            (image,) = {await _start_engine(daemon) for daemon in (first, second)}
        finally:
            await nodes
        battle.write(image)
        yield battle
    finally:
        if battle.runner is not None and battle.runner.poll() is None:
            battle.runner.kill()
            battle.runner.wait()
        await asyncio.to_thread(cluster.close)
        await first.destroy()
        await second.destroy()
