"""Everybody in a cluster is killed at random: workers, raylets, nodes, the head, the coordinator."""

import asyncio
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
from typing import Final

import pytest

from labrunner.errors import ExitCode
from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.cli.calling import GRADER, LAB, environment, lab, write_experiment
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure
from tests.kit.executor.rayclusters import RayCluster

pytestmark = [pytest.mark.torture, pytest.mark.crash, pytest.mark.timeout(7200)]

AGENT: Final = """
import os, pathlib, time
space = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"])
with open(space / "begun", "a") as file:
    file.write(os.urandom(8).hex() + "\\n")
time.sleep(float(os.environ["TAKES_S"]))
prompt = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
(space / "answer.txt").write_text(prompt.upper())
"""
BEGUN: Final = "runs/*/trials/*/*/workspace/begun"
KILLS: Final = 100
NODES: Final = ("n1", "n2", "n3")
"""The first is the head."""
TASKS: Final = 60
TAKES: Final = ("--env", "TAKES_S=2")
RUN: Final = ("--executor", "ray", "--set", "executor.per_node=3")


@dataclass(slots=True, kw_only=True)
class Battle:
    """A run, who carries it out, and who has been killed."""

    folder: Path
    cluster: RayCluster
    engines: dict[str, Daemon] = field(default_factory=dict)
    """Of the nodes that have one of their own."""
    dice: random.Random = field(default_factory=lambda: random.Random(17))
    killed: Counter[str] = field(default_factory=Counter)
    lived: dict[str, str] = field(default_factory=dict)
    """Trials whose agent worked in a container when a worker or the coordinator died, and what it wrote."""
    returned_at: dict[str, float] = field(default_factory=dict)
    """When each node was there again."""
    runner: "subprocess.Popen[bytes] | None" = None

    def start_nodes(self) -> None:
        self.cluster.nodes.clear()
        for name in NODES:
            self._start_node(name)

    def _start_node(self, name: str) -> None:
        self.cluster.nodes.pop(name, None)
        engine = self.engines.get(name)
        env = {"RAY_raylet_start_wait_time_s": "90"}  # nodes come and go all the time: it is a busy machine
        self.cluster.start(name, env=env if engine is None else env | {"DOCKER_HOST": engine.url})
        self.returned_at[name] = time.time()

    def begin(self, run_id: str, *, is_new: bool) -> None:
        verb = ("run", "--run-id", run_id, *RUN) if is_new else ("continue", run_id)
        address = ("--executor-address", self.cluster.address)
        with (self.folder / f"{run_id}.err").open("ab") as told:
            self.runner = subprocess.Popen(
                [LAB, *verb, *address, *(TAKES if is_new else ())],
                cwd=self.folder,
                env=environment(**self.engine_here()),
                stdout=subprocess.DEVNULL,
                stderr=told,
            )

    def engine_here(self) -> dict[str, str]:
        return {"DOCKER_HOST": engine.url} if (engine := self.engines.get("n1")) else {}

    async def kill(self, role: str) -> None:
        """Kill somebody of a role, and start again what does not come back by itself."""
        await KILLS_OF[role](self)
        self.killed[role] += 1
        print(f"{self.killed.total()} kills: {role}", flush=True)

    async def kill_worker(self) -> None:
        name = self.dice.choice(NODES)
        pids = self.cluster.nodes[name].pids("ray::Worker")
        await self._look_who_lives()
        for pid in pids[:1]:
            _kill(pid)

    async def kill_coordinator(self) -> None:
        assert self.runner is not None
        await self._look_who_lives()
        self.runner.kill()

    async def kill_raylet(self) -> None:
        name = self.dice.choice(NODES[1:])
        self.lived.clear()  # what lived on that node is not to be counted on any more
        self.cluster.nodes[name].kill_raylet()
        await asyncio.sleep(self.dice.uniform(0, 2))
        self.cluster.nodes[name].stop()
        self._start_node(name)

    async def kill_node(self) -> None:
        name = self.dice.choice(NODES[1:])
        self.lived.clear()
        self.cluster.nodes[name].stop()
        await asyncio.sleep(self.dice.uniform(0, 2))
        self._start_node(name)

    async def kill_head(self) -> None:
        """Ray ends a cluster without its head after a while: we do not wait for that."""
        self.lived.clear()
        assert self.runner is not None
        for node in self.cluster.nodes.values():
            node.stop()
        self.runner.kill()
        self.start_nodes()

    async def _look_who_lives(self) -> None:
        for name, daemon in self.engines.items():
            async with opened(daemon) as engine:
                trials = [each.labels["labrunner.trial"] for each in await engine.list("labrunner.trial")]
            self.lived |= {trial: begun for trial in trials for begun in self._read_begun(name, trial)}

    def _read_begun(self, name: str, trial: str) -> list[str]:
        """What an agent that has begun on a node wrote."""
        paths = self.cluster.node_dir(name).glob(f"runs/*/trials/{trial}/*/workspace/begun")
        return [begun for path in paths for begun in path.read_text().split()]

    def progress(self, run_id: str) -> tuple[int, frozenset[str]]:
        """How far a run is: trials that are committed, agents that have begun and are not home yet."""
        journal = self.folder / ".lab/runs" / run_id / "commits.jsonl"
        committed = journal.read_bytes().count(b"\n") if journal.exists() else 0
        begun = [path for name in NODES for path in self.cluster.node_dir(name).glob(BEGUN)]
        return committed, frozenset(map(str, begun))

    def check(self, run_id: str, chain: str) -> None:
        """Nothing lost, nothing doubled, nothing left."""
        run = self.folder / ".lab/runs" / run_id
        lines = [json.loads(line) for line in (run / "commits.jsonl").read_text().splitlines()]
        assert len({line["trial_id"] for line in lines}) == len(lines) == TASKS
        assert lines[-1]["chain"] == chain
        verified = lab("verify", run_id, cwd=self.folder)
        assert verified.code == 0, verified.out + verified.err
        for trial in (run / "trials").iterdir():
            (begun,) = [path.read_text().split() for path in trial.glob("[0-9]/workspace/begun")]
            assert len(begun) == 1, f"{trial.name}: its agent was run twice in one place: {begun}"
            if trial.name in self.lived:
                assert begun == [self.lived[trial.name]], f"{trial.name}: its container lived"
        for name in self._find_used(run):
            assert list((self.cluster.node_dir(name) / "runs").glob(f"{run_id}-*/trials/*")) == []

    def _find_used(self, run: Path) -> list[str]:
        """Nodes that carried something out since they were there last: such a node has been swept."""
        timings = [json.loads(line) for line in (run / "facts/timings.jsonl").read_text().splitlines()]
        attempts = sorted((each["started_at"], each["node"]) for row in timings for each in row["attempts"])
        began = {node: datetime.fromisoformat(at).timestamp() for at, node in attempts}  # the last counts
        return [name for name in NODES if began.get(name, 0.0) > self.returned_at[name]]

    async def check_engines(self) -> None:
        for daemon in self.engines.values():
            async with opened(daemon) as engine:
                assert await engine.list("labrunner.nonce") == ()


KILLS_OF: Final[dict[str, Callable[[Battle], Awaitable[None]]]] = {
    "worker": Battle.kill_worker,
    "coordinator": Battle.kill_coordinator,
    "raylet": Battle.kill_raylet,
    "node": Battle.kill_node,
    "head": Battle.kill_head,
}


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def opened(daemon: Daemon) -> AsyncIterator[Engine]:
    engine = Engine(daemon.url)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def two_engines() -> AsyncIterator[tuple[dict[str, Daemon], str]]:
    """Engines of nodes, each with the image; the head has the first one, too."""
    first, second, image = Daemon(live_restore=False), Daemon(live_restore=False), ""
    try:
        for daemon in (first, second):
            await daemon.start()
            async with opened(daemon) as engine:
                image = await ensure(engine, ASH)
        yield {"n1": first, "n2": first, "n3": second}, image
    finally:
        await first.destroy()
        await second.destroy()


async def fight(battle: Battle, kills: int) -> None:
    """Kill until there were enough, one run after another; each has to come to its end all the same."""
    words = ("run", "--run-id", "here", *TAKES, "--max-concurrency", "20")
    here = lab(*words, cwd=battle.folder, env=battle.engine_here(), timeout=600)
    assert here.code == 0, here.err
    chain = json.loads((battle.folder / ".lab/runs/here/commits.jsonl").read_text().splitlines()[-1])["chain"]
    number = 0
    while battle.killed.total() < kills:
        run_id = f"killed-{number}"
        battle.lived.clear()
        await carry_out(battle, run_id, kills)
        battle.check(run_id, chain)
        await battle.check_engines()
        number += 1


async def carry_out(battle: Battle, run_id: str, kills: int) -> None:
    battle.begin(run_id, is_new=True)
    while True:
        assert battle.runner is not None
        if battle.dice.random() < 0.8:  # else somebody dies before anything has begun
            await until_it_goes_on(battle, run_id)
        await asyncio.sleep(battle.dice.uniform(0, 3))
        if (code := battle.runner.poll()) is None and battle.killed.total() < kills:
            await battle.kill(battle.dice.choice(list(KILLS_OF)))
            continue
        code = await asyncio.to_thread(battle.runner.wait, 600)
        if code == 0:
            return
        told = (battle.folder / f"{run_id}.err").read_text()[-3000:]
        # Who dies while everything is still being tried out has the run refused, with nothing spent.
        is_refused = code == ExitCode.BAD_INPUT and "preflight: " in told
        assert code == -signal.SIGKILL or is_refused, (
            f"lab ended with {code} after {dict(battle.killed)}:\n{told}"
        )
        is_new = not (battle.folder / ".lab/runs" / run_id / "run.json").exists()
        battle.begin(run_id, is_new=is_new)


async def until_it_goes_on(battle: Battle, run_id: str) -> None:
    """Wait until another agent has begun, or another trial is committed, since we looked first."""
    assert battle.runner is not None
    before = battle.progress(run_id)
    async with asyncio.timeout(300):
        while battle.runner.poll() is None and battle.progress(run_id) == before:
            await asyncio.sleep(0.1)


@asynccontextmanager
async def prepared(folder: Path, image: str | None, engines: dict[str, Daemon]) -> AsyncIterator[Battle]:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    sandbox = "process" if image is None else f"docker, image: {image}"
    extra = "keep: {workspace: always}\n"
    write_experiment(folder, sandbox=sandbox, agent=AGENT, grader=GRADER, tasks=TASKS, extra=extra)
    battle = Battle(folder=folder, cluster=RayCluster.make(), engines=engines)
    try:
        battle.start_nodes()
        yield battle
    finally:
        if battle.runner is not None and battle.runner.poll() is None:
            battle.runner.kill()
            battle.runner.wait()
        battle.cluster.close()


async def test_a_hundred_kills_of_everybody_lose_and_double_nothing(tmp_path: Path) -> None:
    async with prepared(tmp_path / "w", None, {}) as battle:
        await fight(battle, KILLS)
    assert set(battle.killed) == set(KILLS_OF)


@pytest.mark.docker
@pytest.mark.root
async def test_a_hundred_kills_around_containers_run_no_agent_twice(tmp_path: Path) -> None:
    async with two_engines() as (engines, image), prepared(tmp_path / "w", image, engines) as battle:
        await fight(battle, KILLS)
    assert set(battle.killed) == set(KILLS_OF)
