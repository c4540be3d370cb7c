"""The nodes of a run: which are there, which have joined, what each has to give; they come and go.

Rules: a node is known by its name, which stays when it is started again. It is used once a worker of it has
begun, has shown that attempts can be carried out there, and has removed what nobody will go on with. Who died
is found anew while Ray still has the node; what it was at waits for that, and for no longer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from labrunner.errors import LabError, SandboxFailed
from labrunner.executor.cluster import rayport
from labrunner.executor.cluster.rayport import ClusterPort, NodeLost, RayNode, RayWorker
from labrunner.executor.cluster.tidings import Begun, WorkerHello, decode, encode
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.files.uninterrupted import wait_out
from labrunner.sandbox.door import Check, Survivor


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePace:
    """How long nodes are waited for, in seconds."""

    look_s: float = 1.0
    """How often it is looked which nodes there are."""
    start_s: float = 120.0
    """How long a worker may take to say who it is: a node's first one loads this program."""
    again_s: float = 5.0
    """After a node could not be used, it is tried again; each time twice as late."""
    latest_s: float = 300.0
    close_s: float = 20.0
    rejoin_s: float = 60.0
    """How long what lives on a node waits for its next worker."""


NODE_PACE: Final = NodePace()
DEATHS: Final = 5
"""So many workers of a node in a row may die over a question before it stays without an answer."""
STARTS: Final = 3
"""So many workers in a row may die before they have begun."""

Begin = Callable[[RayWorker, str, WorkerHello], Awaitable[Begun]]
"""Has a worker begin to work for the run: everything that it needs is delivered first."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A node whose worker has begun."""

    id: str
    name: str
    worker: RayWorker
    begun: Begun
    taken: set[str] = field(default_factory=set)
    """Attempts that have one of its places, by token."""
    calls: set[str] = field(default_factory=set)
    """Attempts that it is at, those whose files are on their way among them."""
    is_open: bool = False
    """Whether it gets new attempts."""
    is_lost: bool = False

    @property
    def free(self) -> int:
        """Places that nobody has."""
        return self.begun.places - len(self.taken) if self.is_open else 0

    async def preflight(self) -> tuple[Check, ...]:
        """Whether attempts can be carried out there."""
        return decode(await self.worker.call("preflight"), tuple[Check, ...])

    async def survivors(self) -> tuple[Survivor, ...]:
        """What is left there that can be gone on with."""
        return decode(await self.worker.call("survivors"), tuple[Survivor, ...])

    async def reap(self, keep: frozenset[str]) -> int:
        """Remove all but these."""
        return decode(await self.worker.call("reap", encode(sorted(keep))), int)


class Nodes:
    """The nodes of one executor."""

    def __init__(
        self,
        plan: ExecutorPlan,
        prepare: Callable[[], Awaitable[object]],
        begin: Begin,
        *,
        port: ClusterPort = rayport,
        pace: NodePace = NODE_PACE,
    ) -> None:
        """Look at nothing yet; `prepare` is called before any worker is started."""
        self._plan, self._prepare, self._begin = plan, prepare, begin
        self._port, self.pace = port, pace
        self._joined: dict[str, Node] = {}
        self.problems: dict[str, str] = {}
        """Why nodes are not used, by name."""
        self.orphaned: dict[str, set[str]] = {}
        """By node, attempts whose worker died under them, or that are yet to be gone on with: its next worker
        is not to sweep them away."""
        self._not_before: dict[str, tuple[float, float]] = {}
        self._there: tuple[RayNode, ...] = ()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed: Callable[[], None] = lambda: None
        self._waiting = asyncio.Event()
        self._is_watching = False
        self._opening = asyncio.Lock()
        self._joining: set[str] = set()

    @property
    def joined(self) -> tuple[Node, ...]:
        """Those whose workers have begun."""
        return tuple(self._joined.values())

    @property
    def count(self) -> int:
        """How many nodes Ray has, as far as was last seen."""
        return len(self._there)

    @property
    def places(self) -> int:
        """How many attempts the open ones carry out at once."""
        return sum(node.begun.places for node in self._joined.values() if node.is_open)

    def find(self, name: str) -> Node | None:
        """The node of a name, if it has joined."""
        return next((node for node in self._joined.values() if node.name == name), None)

    def is_there(self, name: str) -> bool:
        """Whether Ray has a node of that name, as far as was last seen."""
        return any(node.name == name for node in self._there)

    async def join(self) -> None:
        """Have a worker on every node that is wanted and there. Raises SandboxFailed without any cluster."""
        await self._port.connect(self._plan.address)
        await self._prepare()
        try:
            await self._look()
        except NodeLost as lost:
            raise SandboxFailed("no_cluster", f"the cluster's head does not answer: {lost}") from lost
        async with asyncio.TaskGroup() as group:
            for node in self._find_new():
                group.create_task(self._join(node))
        while self._joining:
            await self.wait_for_change()

    async def open(self) -> None:
        """Use every node that shows that it can be used, now and from now on those that join later."""
        async with self._opening:
            if self._is_watching:
                return
            await self.join()
            async with asyncio.TaskGroup() as group:
                for node in self.joined:
                    group.create_task(self._try(node))
            self._is_watching = True
            self._own(self._watch())

    def call_on_change(self, changed: Callable[[], None]) -> None:
        """Have somebody hear whenever there are more places, or fewer."""
        self._changed = changed

    def take(self, token: str) -> Node | None:
        """A place for an attempt, where most are free; None while there is none."""
        free = [node for node in self._joined.values() if node.free > 0]
        if not free:
            return None
        node = max(free, key=lambda each: (each.free / each.begun.places, each.name))
        node.taken.add(token)
        return node

    def give_back(self, node: Node, token: str) -> None:
        """An attempt needs its place no more."""
        if token in node.taken:
            node.taken.discard(token)
            self._tell()

    async def ask_every(self, ask: Callable[[Node], Awaitable[None]], *, insist: bool = False) -> None:
        """Ask every node that is there; where a worker dies over it, the one that follows it.

        Who insists has nodes tried again that can't be used at once. Raises SandboxFailed, for who insists,
        where a node that Ray has gives no answer.
        """
        answered: set[str] = set()
        silent: tuple[RayNode, ...] = ()
        for _ in range(DEATHS):
            await self._until_due(silent if insist else ())
            await self.join()
            unasked = [node for node in self.joined if node.id not in answered]
            for node in unasked:
                try:
                    await ask(node)
                    answered.add(node.id)
                except NodeLost as lost:
                    self.lose(node, str(lost))
            silent = tuple(node for node in self._there if node.id not in answered)
            if not silent or not (unasked or insist):
                return
        if insist:
            name = silent[0].name
            why = self.problems.get(name, "no answer")
            told = f"node {name} does not say what lives there of this run: {why}"
            told += "; nothing is given up on a guess: try again, or end the node with `ray stop` there"
            raise SandboxFailed("node_silent", told)

    async def _until_due(self, nodes: Iterable[RayNode]) -> None:
        """Wait until nodes that could not be used may be tried again."""
        due = [self._not_before.get(node.name, (0.0, 0.0))[0] for node in nodes]
        await asyncio.sleep(max(0.0, max(due, default=0.0) - time.monotonic()))

    async def ask_next(self, name: str) -> tuple[Node, tuple[Survivor, ...]] | None:
        """A node's next worker that can say what lives there, and what does; None where Ray has none."""
        while self.is_there(name):
            if (node := self.find(name)) is not None:
                try:
                    return node, await node.survivors()
                except NodeLost as lost:
                    self.lose(node, str(lost))
                    continue
                except SandboxFailed:
                    pass  # its engine does not answer
            await self.wait_for_change()
        return None

    async def wait_for_change(self) -> None:
        """Wait until a place may be free, or a node came or went."""
        self._waiting.clear()
        await self._waiting.wait()

    def lose(self, node: Node, why: str) -> None:
        """A worker is gone: nothing is told to it any more, and it is ended, should it live."""
        if node.is_lost:
            return
        node.is_lost, node.is_open = True, False
        if self._joined.get(node.id) is node:
            del self._joined[node.id]
            self.problems[node.name] = f"its worker is gone ({why})"
        self.orphaned.setdefault(node.name, set()).update(node.calls)
        node.worker.kill()
        self._tell()

    async def close(self) -> None:
        """End the workers; what was not released stays on their nodes."""
        for task in list(self._tasks):
            task.cancel()
        for task in list(self._tasks):
            await wait_out(task)
        closing = [asyncio.ensure_future(self._close(node)) for node in self.joined]
        self._joined.clear()
        for each in closing:
            await wait_out(each)

    async def _close(self, node: Node) -> None:
        node.is_lost, node.is_open = True, False
        with suppress(NodeLost, SandboxFailed, TimeoutError):
            async with asyncio.timeout(self.pace.close_s):
                await node.worker.call("close")
        node.worker.kill()

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self) -> None:
        self._waiting.set()
        self._changed()

    async def _look(self) -> None:
        self._there = tuple(node for node in await self._port.list_nodes() if self._is_wanted(node.labels))

    def _is_wanted(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self._plan.labels.items())

    def _find_new(self) -> list[RayNode]:
        now = time.monotonic()
        return [
            node
            for node in self._there
            if node.id not in self._joined
            and node.id not in self._joining
            and self._not_before.get(node.name, (0.0, 0.0))[0] <= now
        ]

    async def _watch(self) -> None:
        """Have nodes that come join; nodes that Ray has no more get nothing new."""
        while True:
            await asyncio.sleep(self.pace.look_s)
            try:
                await self._look()
            except NodeLost as lost:
                self.problems["the cluster's head"] = f"does not answer ({lost})"
                self._tell()
                continue
            self.problems.pop("the cluster's head", None)
            there = {node.id for node in self._there}
            for node in self.joined:
                if node.id not in there:
                    self.lose(node, "Ray has the node no more")
            for new in self._find_new():
                self._own(self._join_late(new))
            self._waiting.set()

    async def _join_late(self, node: RayNode) -> None:
        await self._join(node)
        if (joined := self._joined.get(node.id)) is not None:
            await self._try(joined)

    async def _join(self, node: RayNode) -> None:
        """Have a worker begin; a node where that can't be is named with its problem."""
        self._joining.add(node.id)
        try:
            await self._have_begun(node)
        except NodeLost as lost:
            self._refuse(node, f"no worker could be started: {lost}; is labrunner installed there?")
        except TimeoutError:
            self._refuse(node, f"no worker was started within {self.pace.start_s:.0f} s")
        except LabError as error:
            self._refuse(node, str(error))
        finally:
            self._joining.discard(node.id)
            self._tell()

    async def _have_begun(self, node: RayNode) -> None:
        """Have a worker begin; one that dies over it is followed by another, a few times."""
        for _ in range(STARTS - 1):
            with suppress(NodeLost):
                return await self._begin_at(node)
        return await self._begin_at(node)

    async def _begin_at(self, node: RayNode) -> None:
        worker = self._port.start_worker(node)
        try:
            async with asyncio.timeout(self.pace.start_s):
                hello = decode(await worker.call("introduce"), WorkerHello)
            begun = await self._begin(worker, node.name, hello)
        except BaseException:
            worker.kill()
            raise
        joined = Node(id=node.id, name=node.name, worker=worker, begun=begun)
        self._joined[node.id] = joined
        self._own(self._stay(joined))

    def _refuse(self, node: RayNode, why: str) -> None:
        self.problems[node.name] = why
        _, wait = self._not_before.get(node.name, (0.0, self.pace.again_s))
        self._not_before[node.name] = (time.monotonic() + wait, min(2 * wait, self.pace.latest_s))

    async def _stay(self, node: Node) -> None:
        """Hear at once when a worker dies."""
        try:
            await node.worker.tell("stay")
        except NodeLost as lost:
            self.lose(node, str(lost))

    async def _try(self, node: Node) -> None:
        """Open a node once it has shown that attempts can be carried out there, and is swept."""
        if node.is_open:
            return
        try:
            failed = [each for each in await node.preflight() if not each.passed and each.severity == "error"]
            if failed:
                self._give_up(node, "; ".join(f"{each.name}: {each.message}" for each in failed))
                return
            if self._is_watching:  # who was there when the run began was swept then
                # What is gone on with by now is no orphan any more.
                await node.reap(frozenset(self.orphaned.get(node.name, set()) | node.taken | node.calls))
        except NodeLost as lost:
            self._give_up(node, f"its worker is gone ({lost})")
        except SandboxFailed as failure:
            self._give_up(node, str(failure))
        else:
            node.is_open = not node.is_lost
            self.problems.pop(node.name, None)
            self._not_before.pop(node.name, None)
            self._tell()

    def _give_up(self, node: Node, why: str) -> None:
        self.lose(node, why)
        self.problems[node.name] = why
        _, wait = self._not_before.get(node.name, (0.0, self.pace.again_s))
        self._not_before[node.name] = (time.monotonic() + wait, min(2 * wait, self.pace.latest_s))
