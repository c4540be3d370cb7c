"""`bench wire`: attempts that do nothing, on two nodes of a Ray cluster, through the real executor and store.

Ours: a run's loop, store and commits over the executor for clusters. Each attempt goes to a worker on a node,
tells there that its agent ended and that its grader starts, waits each time until that is durable here, ends,
has its folder made and synced here, is committed, and is released at its node. Bare: Ray alone, with the same
messages between one process and two: an answer in four pieces, two acknowledgements, a release. Out on both
sides: starting the cluster and its workers.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.catalogue import Bench, Found
from bench.engine import coordinate
from bench.figures import Bar, Figure
from bench.idle import IdleExecutor
from bench.nodes import NODES, start_nodes
from bench.rounds import Sample, Side, Sizes, Work, take_rounds
from bench.workload import Shape, make_experiment, split_trials
from labrunner.executor.cargo import Cargo, Delivered, OwnCode
from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.registry import RAY
from labrunner.experiment.resolved import Experiment
from labrunner.records.completion import Completion
from labrunner.runner.newrun import Descent, create_new_run, make_record
from labrunner.sandbox import registry
from labrunner.sandbox.door import SandboxMaker, Survivor
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import Assignment, Notes, TrialContext
from tests.kit.executor.rayclusters import RayCluster

TOLD: Final = (("here_ms", "coordinator"), ("workers_ms", "workers"), ("ray_ms", "the rest of Ray"))
"""Processor time an attempt, by who took it."""


class Carrier(IdleExecutor):
    """At a node: attempts end at once, after their notes, and leave nothing."""

    def __init__(
        self, context: TrialContext, make: Callable[[str], SandboxMaker], delivered: Delivered
    ) -> None:
        """Nothing is needed but the node's name."""
        del make, delivered
        super().__init__()
        self._node = context.node

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Complete, without files."""
        done = await super().carry_out(assignment, notes, survivor)
        notes.sandbox_gone(assignment.token)
        timing = msgspec.structs.replace(done.timing, logs=(), node=self._node)
        return msgspec.structs.replace(done, files=(), timing=timing)


class ContainersCoordinator(RayExecutor):
    """The executor for clusters, whose notes have to be durable as those of containers."""

    def outlives_runner(self, assignment: Assignment) -> bool:
        """As containers on nodes do."""
        del assignment
        return True


async def _pack() -> Cargo:
    return Cargo(carrier="bench.wire:Carrier", words=b"", files={}, secrets={})


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """Start two nodes and make a run; the work is to carry it out there."""
    cluster, _ = start_nodes(sizes["per_node"])
    experiment, paths = _make_run(folder, sizes, cluster)
    times: dict[str, float] = {}

    async def carry_out() -> None:
        context = TrialContext(
            experiment=experiment,
            run_id=paths.root.name,
            trials_dir=paths.trial_folders.resolve(),
            host="bench",
            secrets={},
        )
        executor = ContainersCoordinator(context, registry.remember())
        executor.take_code(OwnCode(pack=_pack, make_here=IdleExecutor))

        @asynccontextmanager
        async def beside(writer: RunWriter) -> AsyncIterator[None]:
            del writer
            await executor.open(lambda: None)
            assert executor.places == NODES * sizes["per_node"], executor.trouble
            async with _timed(cluster, sizes["trials"], times):
                yield

        try:
            await coordinate(experiment, paths, lambda _: None, executor, beside)
        finally:
            await executor.close()

    def work() -> dict[str, float]:
        try:
            asyncio.run(carry_out())
        finally:
            _leave(cluster)
        nodes = [rows.timing.attempts[-1].node for rows in iter_finished(paths)]
        assert (len(nodes), len(set(nodes))) == (sizes["trials"], NODES)
        return times

    return work


def _leave(cluster: RayCluster) -> None:
    import ray

    ray.shutdown()  # first: it ends a process whose cluster is gone
    cluster.close()


class BareWorker:
    """What a worker says and hears, and nothing else."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self._heard: dict[tuple[str, int], asyncio.Event] = {}

    async def carry_out(self, token: str, order: bytes) -> AsyncIterator[bytes]:
        """Four pieces, of which the first two wait to be acknowledged."""
        for seq in range(2):
            heard = self._heard[token, seq] = asyncio.Event()
            yield order
            await heard.wait()
        yield b"gone"
        yield order

    async def acknowledge(self, token: str, seq: int) -> None:
        """A piece was heard."""
        self._heard.pop((token, seq)).set()

    async def release(self, token: str, order: bytes) -> bytes:
        """Nothing was left."""
        del token, order
        return b"+"


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """Start two nodes; the work is to exchange the same messages with a process on each, by Ray alone."""
    del folder
    cluster, _ = start_nodes(sizes["per_node"])
    times: dict[str, float] = {}

    async def exchange() -> None:
        workers = await asyncio.to_thread(_start_bare, cluster.address)
        left = iter(range(sizes["trials"]))
        async with _timed(cluster, sizes["trials"], times), asyncio.TaskGroup() as group:
            for number in range(NODES * sizes["per_node"]):
                group.create_task(_exchange(workers[number % NODES], left))

    def work() -> dict[str, float]:
        try:
            asyncio.run(exchange())
        finally:
            _leave(cluster)
        return times

    return work


async def _exchange(worker: Any, left: Any) -> None:  # noqa: ANN401 - Ray's own; an iterator that all share
    order = b"x" * 300
    for number in left:
        token, seq = f"attempt-{number}", 0
        async for answer in worker.carry_out.options(num_returns="streaming").remote(token, order):
            await answer
            if seq < 2:
                await worker.acknowledge.remote(token, seq)
            seq += 1
        await worker.release.remote(token, order)


def _start_bare(address: str) -> list[Any]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address=address, log_to_driver=False, configure_logging=False)
    made = []
    for node in ray.nodes():
        where = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        options = {"num_cpus": 0, "max_concurrency": 100_000, "scheduling_strategy": where}
        made.append(ray.remote(BareWorker).options(**options).remote())
    ray.get([worker.release.remote("", b"") for worker in made])
    return made


@asynccontextmanager
async def _timed(cluster: RayCluster, trials: int, times: dict[str, float]) -> AsyncIterator[None]:
    """Note how long it took, and who took how much of the processors."""
    began, before = time.monotonic(), _cpu_s(cluster)
    yield
    after = _cpu_s(cluster)
    times["span_s"] = time.monotonic() - began
    times |= {key: 1000 * (after[key] - before[key]) / trials for key, _ in TOLD}


def _cpu_s(cluster: RayCluster) -> dict[str, float]:
    every = {pid for node in cluster.nodes.values() for pid in node.pids("")}
    workers = {
        pid for node in cluster.nodes.values() for word in ("Worker",) for pid in node.pids(f"ray::{word}")
    }
    workers |= {pid for node in cluster.nodes.values() for pid in node.pids("ray::BareWorker")}
    return {
        "here_ms": time.process_time(),
        "workers_ms": sum(map(_taken_s, workers)),
        "ray_ms": sum(map(_taken_s, every - workers)),
    }


def _taken_s(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def _make_run(folder: Path, sizes: Sizes, cluster: RayCluster) -> tuple[Experiment, RunPaths]:
    tasks, replications = split_trials(sizes["trials"])
    at_once = NODES * sizes["per_node"]
    shape = Shape(tasks=tasks, replications=replications, concurrency=at_once, sandbox="process")
    made = make_experiment(folder / "experiment", shape)
    plan = replace(made.policy.executor, kind=RAY, address=cluster.address, per_node=sizes["per_node"])
    experiment = replace(made, policy=replace(made.policy, executor=plan))
    record = make_record(experiment, run_id="bench")
    return experiment, create_new_run(folder / "runs", experiment, record, Descent())


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("wire", tuple(SIDES), sizes, rounds)
    bare, ours = (sizes["trials"] / taken.median(side, _of("span_s")) for side in ("bare", "ours"))
    shares = [
        Figure(name=f"{side}: {who}", value=taken.median(side, _of(key)), unit="ms of processor")
        for side in ("bare", "ours")
        for key, who in TOLD
    ]
    return Found(
        figures=(
            Figure(name="Ray alone", value=bare, unit="attempts/s"),
            Figure(name="ours", value=ours, unit="attempts/s", bar=Bar("at_least", 300)),
            *shares,
            Figure(name="ratio", value=taken.ratio("ours", "bare", _of("span_s")), unit="x"),
        ),
        samples={name: [_of("span_s")(each) for each in samples] for name, samples in taken.sides.items()},
    )


def _of(name: str) -> Callable[[Sample], float]:
    return lambda sample: sample.extra[name]


SIDES: Final[dict[str, Side]] = {"bare": prepare_bare, "ours": prepare_ours}
BENCH: Final = Bench(
    name="wire",
    work="attempts that do nothing, on two nodes of a Ray cluster with one core each, with full durability",
    against="the same messages by Ray alone",
    sizes={"trials": 6_000, "per_node": 32},
    rounds=3,
    measure=measure,
)
