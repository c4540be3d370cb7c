"""A cluster of one node that is this very process: a real node's end, without Ray between it and the run.

Who uses it says in `LAB_NODE_DIR` where the node works.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.cluster.members.node import NODE_PACE, NodePace
from labrunner.executor.cluster.onnode.worker import Worker
from labrunner.executor.cluster.rayport import RayNode, RayWorker
from labrunner.executor.cluster.tidings import decode
from labrunner.executor.registry import RAY
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.sandbox import registry
from labrunner.sandbox.door import Survivor
from tests.kit.executor.crews import Crew

NAME = "near"


class NearWorker(RayWorker):
    """A node's worker, called as Ray would."""

    def __init__(self, cluster: "NearCluster") -> None:
        self._cluster, self._worker = cluster, Worker(NAME)

    async def call(self, name: str, *words: object) -> bytes:
        answer: bytes = await getattr(self._worker, name)(*words)
        assert answer[:1] == b"+", answer
        return answer[1:]

    async def tell(self, name: str, *words: object) -> None:
        if name == "acknowledge" and words[1] == self._cluster.holds:
            self._cluster.has_held.set()
            await asyncio.Event().wait()
        await getattr(self._worker, name)(*words)

    async def stream(self, name: str, *words: object) -> AsyncIterator[bytes]:
        if name == "carry_out" and self._cluster.instead:
            yield self._cluster.instead.pop(0)
            return
        told: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def run() -> None:
            """Have it told to its end, whoever listens."""
            try:
                async for answer in getattr(self._worker, name)(*words):
                    told.put_nowait(answer)
            finally:
                told.put_nowait(None)

        running = asyncio.ensure_future(run())
        while (answer := await told.get()) is not None:
            yield answer
        await running

    def kill(self) -> None:
        """It ends with the test."""

    async def standing(self) -> tuple[Survivor, ...]:
        """What the next worker of this node would find here."""
        return decode(await self.call("survivors"), tuple[Survivor, ...])


@dataclass(slots=True)
class NearCluster:
    """Stands in for Ray: the port of a `RayExecutor`."""

    workers: list[NearWorker] = field(default_factory=list)
    holds: int | None = None
    """The number of what is never acknowledged: 0 is the barrier, 1 the grader, then files."""
    instead: list[bytes] = field(default_factory=list)
    """What attempts tell instead of being carried out, one after another."""
    has_held: asyncio.Event = field(default_factory=asyncio.Event)

    async def connect(self, address: str) -> None:
        del address

    async def list_nodes(self) -> tuple[RayNode, ...]:
        return (RayNode(id="id", name=NAME),)

    def start_worker(self, node: RayNode) -> NearWorker:
        assert node.name == NAME
        self.workers.append(NearWorker(self))
        return self.workers[-1]


@dataclass(frozen=True, kw_only=True)
class NearCrew(Crew):
    """A run of one trial, on that node."""

    cluster: NearCluster = field(default_factory=NearCluster)
    is_repeatable: bool = False
    """Whether its grader may judge twice."""
    min_free_disk_gb: float = 0.0

    def experiment(self) -> Experiment:
        experiment = super().experiment()
        plan = ExecutorPlan(kind=RAY, address=NAME, per_node=2)
        (task,) = experiment.tasks
        judged = replace(task, grader=replace(task.grader, repeatable=self.is_repeatable))
        policy = replace(experiment.policy, executor=plan, min_free_disk_gb=self.min_free_disk_gb)
        return replace(experiment, tasks=(judged,), policy=policy)

    def executor(self, pace: NodePace = NODE_PACE) -> RayExecutor:
        return RayExecutor(self.context(), registry.make, port=self.cluster, pace=pace)
