"""A cluster that is made up behind the port to Ray: nodes that die when told to, and speak as real ones do.

What an attempt of it is: a container on its node, which begins once, works for a while, and lives on when
its worker dies. Workers answer after moments that dice decide, so that whatever may come first, does.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

import msgspec

from bench.idle import complete
from labrunner.errors import SandboxFailed
from labrunner.executor.cluster.onnode.nodecall import CANCELLED, DISK
from labrunner.executor.cluster.rayport import NodeLost, RayNode, RayWorker
from labrunner.executor.cluster.strongbox import Strongbox
from labrunner.executor.cluster.tidings import (
    AttemptOrder,
    BarrierTold,
    Begun,
    ConnectionAsked,
    Ended,
    GoneTold,
    GraderTold,
    NodeFailure,
    WorkerHello,
    decode,
    encode,
)
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion, Failed, PhaseFact
from labrunner.sandbox.door import Check, Survivor
from labrunner.trial.assignment import Assignment
from labrunner.trial.classification import spoilt
from labrunner.version import VERSION

_AT_BARRIER = BarrierNote(agent=PhaseFact(exit_status=0))


@dataclass(slots=True, eq=False)
class MadeContainer:
    """One attempt's; its agent has begun."""

    assignment: Assignment
    works: "asyncio.Task[None]"
    is_gone: bool = False


@dataclass(slots=True, kw_only=True)
class MadeNode:
    """A machine: what is on it stays when its worker dies, and when the machine is away."""

    name: str
    cluster: "MadeCluster"
    id: str = ""
    is_there: bool = True
    containers: dict[str, MadeContainer] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    """Attempts whose folders were sent there, by token."""
    hello: bytes | None = None
    """What its workers say who they are, if not the truth."""
    worker: "MadeWorker | None" = None

    def kill_worker(self) -> None:
        """Kill the process that serves the run there."""
        if self.worker is not None:
            self.worker.die()

    def hang_worker(self) -> None:
        """Stop that process: it answers nothing any more, and lives."""
        if self.worker is not None:
            self.worker.hangs = True

    def leave(self, *, unnoticed: bool = False) -> None:
        """Be away, as a machine that falls over and takes its containers' processes along."""
        if unnoticed:
            self.cluster.unnoticed.append(RayNode(id=self.id, name=self.name))
        self.is_there = False
        self.kill_worker()

    def come_back(self) -> None:
        """Be there again, under the same name."""
        self.id, self.is_there = self.cluster.make_id(), True

    def remove(self, token: str) -> None:
        """Remove a container."""
        container = self.containers.pop(token, None)
        if container is not None:
            container.is_gone = True
            container.works.cancel()


@dataclass(slots=True)
class MadeCluster:
    """Stands in for Ray: the port of a `RayExecutor`."""

    names: tuple[str, ...] = ("n1", "n2", "n3")
    per_node: int = 3
    takes_s: float = 0.02
    latency_s: float = 0.002
    seed: int = 1
    dice: random.Random = field(init=False)
    nodes: dict[str, MadeNode] = field(init=False)
    begun: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Tokens of each trial's agents, in the order in which they began."""
    ended: int = 0
    """How many attempts have come to an end that was told."""
    swept: set[str] = field(default_factory=set)
    """Containers that were removed as nobody's, by token."""
    on_grading: Callable[[str], Awaitable[None]] | None = None
    """Told the node's name once a grader there may begin."""
    full: Counter[str] = field(default_factory=Counter)
    """How often a node's disk is still full when an attempt begins, by name."""
    on_call: Callable[[str, str], Awaitable[None]] | None = None
    """Told the node's name and the call's before a worker answers; what it raises is the answer."""
    connections: int = 0
    """So many of them all attempts share: each asks for one before it begins to work, and keeps it."""
    bug: Exception | None = None
    """What is raised where it is looked which nodes there are."""
    unnoticed: list[RayNode] = field(default_factory=list)
    """Nodes that are gone, and that the head still lists."""
    names_told: dict[str, str] = field(default_factory=dict)
    """What nodes call themselves, if not by their own names."""
    lacks_all: bool = False
    """Whether workers have to be sent all that the experiment names."""
    head_is_away: bool = False
    head_is_silent: bool = False
    """Whether it lets everybody wait who asks it."""
    looks: int = 0
    """How often it was looked which nodes there are."""
    _numbers: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.nodes = {name: MadeNode(name=name, cluster=self, id=self.make_id()) for name in self.names}

    def make_id(self) -> str:
        return f"id-{next(self._numbers)}"

    async def connect(self, address: str) -> None:
        del address

    async def list_nodes(self) -> tuple[RayNode, ...]:
        await asyncio.sleep(0)
        self.looks += 1
        if self.head_is_away:
            raise NodeLost("connection refused")
        if self.bug is not None:
            raise self.bug
        if self.head_is_silent:
            await asyncio.Event().wait()
        found = (
            RayNode(id=each.id, name=self.names_told.get(each.name, each.name))
            for each in self.nodes.values()
            if each.is_there
        )
        return (*self.unnoticed, *found)

    def start_worker(self, node: RayNode) -> "MadeWorker":
        there = (each for each in self.nodes.values() if each.is_there and each.id == node.id)
        if (machine := next(there, None)) is None:
            worker = MadeWorker(self.nodes[node.name])
            worker.die()
        else:
            machine.worker = worker = MadeWorker(machine)
        return worker

    def close(self) -> None:
        """End what is still at work."""
        for node in self.nodes.values():
            for token in list(node.containers):
                node.remove(token)


class MadeWorker(RayWorker):
    """A worker on a made-up node, until it is killed."""

    def __init__(self, node: MadeNode) -> None:
        self._node, self._dead, self._box = node, asyncio.Event(), Strongbox()
        self.hangs = False
        self._heard: dict[tuple[str, int], asyncio.Event] = defaultdict(asyncio.Event)
        self._cancelled: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @property
    def is_dead(self) -> bool:
        return self._dead.is_set()

    def die(self) -> None:
        """End at once; whoever waits for it hears that."""
        self._dead.set()

    def kill(self) -> None:
        self.die()

    async def call(self, name: str, *words: object) -> bytes:
        return await self._alive(self._answer(name, *words))

    async def tell(self, name: str, *words: object) -> None:
        await self._alive(self._answer(name, *words))

    async def stream(self, name: str, *words: object) -> AsyncIterator[bytes]:
        assert name == "carry_out"
        (order,) = words
        assert isinstance(order, bytes)
        told = self._carry_out(decode(order, AttemptOrder))
        while True:
            try:
                yield await self._alive(anext(told))
            except StopAsyncIteration:
                return

    async def _alive(self, work: Awaitable[bytes]) -> bytes:
        """What comes of work here, unless this worker dies first."""
        if self._dead.is_set():
            if asyncio.iscoroutine(work):
                work.close()
            raise NodeLost("it was killed")
        doing, dying = asyncio.ensure_future(work), asyncio.ensure_future(self._dead.wait())
        try:
            await asyncio.wait({doing, dying}, return_when=asyncio.FIRST_COMPLETED)
            if self.hangs:
                await dying
            if self._dead.is_set():
                raise NodeLost("it was killed")
            return doing.result()
        finally:
            for task in (doing, dying):
                task.cancel()
            await asyncio.gather(doing, dying, return_exceptions=True)

    async def _answer(self, name: str, *words: object) -> bytes:
        cluster = self._node.cluster
        if cluster.on_call is not None:
            await cluster.on_call(self._node.name, name)
        await asyncio.sleep(cluster.dice.uniform(0, cluster.latency_s))
        match name, words:
            case "introduce", () if self._node.hello is not None:
                return self._node.hello
            case "introduce", ():
                return encode(WorkerHello(version=VERSION, host="made", key=self._box.key))
            case "lacks", (bytes() as keys,) if cluster.lacks_all:
                return keys
            case "begin", _:
                return encode(Begun(places=cluster.per_node, trials_dir="/"))
            case "preflight", ():
                return encode([Check(name="made", passed=True, message="as told")])
            case "stay", ():
                await asyncio.Event().wait()
            case "survivors", ():
                return encode([_describe(each) for each in self._node.containers.values()])
            case "reap", (bytes() as keep,):
                return encode(await self._reap(decode(keep, list[str])))
            case _:
                self._do(name, *words)
        return encode([])

    def _do(self, name: str, *words: object) -> None:
        """What has no answer."""
        match name, words:
            case "acknowledge", (str() as token, int() as seq):
                self._heard[token, seq].set()
            case "cancel", (str() as token,):
                self._cancelled[token].set()
            case "release", (bytes() as whose, _):
                self._node.remove(decode(whose, Assignment).token)
            case "receive_folder", (bytes() as whose, piece):
                if piece is None:
                    self._node.sent.add(decode(whose, Assignment).token)
            case _:
                assert name in {"lacks", "receive", "close", "ping"}, name

    async def _reap(self, keep: list[str]) -> int:
        doomed = [token for token in self._node.containers if token not in keep]
        for token in doomed:
            await asyncio.sleep(0)
            self._node.cluster.swept.add(token)
            self._node.remove(token)
        return len(doomed)

    async def _carry_out(self, order: AttemptOrder) -> AsyncIterator[bytes]:
        assignment, token = order.assignment, order.assignment.token
        cluster = self._node.cluster
        await asyncio.sleep(cluster.dice.uniform(0, cluster.latency_s))
        if cluster.full[self._node.name] > 0:
            cluster.full[self._node.name] -= 1
            yield encode(NodeFailure(reason=DISK, message="no space left on device"))
            return
        if order.survivor is None:
            cluster.begun[assignment.trial_id].append(token)
            works = asyncio.ensure_future(asyncio.sleep(cluster.dice.uniform(0, 2 * cluster.takes_s)))
            self._node.containers[token] = MadeContainer(assignment, works)
        if cluster.connections:
            yield encode(ConnectionAsked(seq=2, provider="made", most=cluster.connections))
            await self._heard[token, 2].wait()
        container = self._node.containers.get(token)
        stands = order.survivor is not None and order.survivor.ended is not None
        ended = await self._see_end(assignment, container, stands=stands and token in self._node.sent)
        if isinstance(ended, NodeFailure):
            yield encode(ended)
            return
        if not isinstance(ended.end, Failed):
            yield encode(BarrierTold(seq=0, note=_AT_BARRIER))
            await self._heard[token, 0].wait()
            yield encode(GraderTold(seq=1))
            await self._heard[token, 1].wait()
            if cluster.on_grading is not None:
                await cluster.on_grading(self._node.name)
            yield encode(GoneTold())
        cluster.ended += 1
        yield encode(Ended(completion=ended))

    async def _see_end(
        self, assignment: Assignment, container: MadeContainer | None, *, stands: bool
    ) -> Completion | NodeFailure:
        """How the agent ends; as the containers' own adapter says it where its container is gone."""
        if container is not None:
            cancelled = asyncio.ensure_future(self._cancelled[assignment.token].wait())
            try:
                await asyncio.wait({container.works, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                cancelled.cancel()
            if self._cancelled[assignment.token].is_set():
                self._node.remove(assignment.token)
                return NodeFailure(reason=CANCELLED, message="was cancelled")
        done = msgspec.structs.replace(complete(assignment), files=())
        timing = msgspec.structs.replace(done.timing, logs=(), node=self._node.name)
        done = msgspec.structs.replace(done, timing=timing)
        if stands or (container is not None and not container.is_gone):
            return done
        failure = spoilt(SandboxFailed("container_gone", "the container is gone: somebody else removed it"))
        return msgspec.structs.replace(done, end=failure, agent=None, grader=None, grader_tries=0)


def _describe(container: MadeContainer) -> Survivor:
    whose = container.assignment
    return Survivor(
        token=whose.token, trial_id=whose.trial_id, attempt=whose.attempt, phase="agent", is_alive=True
    )
