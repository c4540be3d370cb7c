"""The nodes of a run: which are there, which have joined, what each has to give; they come and go.

Rules: a node is known by its name, which stays when it is started again. It is used once a worker of it has
begun, has shown that attempts can be carried out there, and has removed what nobody will go on with. Who died
is found anew while Ray still has the node; what it was at waits for that, and for no longer. Of several nodes
with one name one is used at a time: the others get their turn when it is gone, or can't be used.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from labrunner.errors import LabError, SandboxFailed
from labrunner.executor.cluster import rayport
from labrunner.executor.cluster.head import NO_CLUSTER
from labrunner.executor.cluster.members.census import Census
from labrunner.executor.cluster.members.headwatch import HeadLost
from labrunner.executor.cluster.members.heartbeat import while_answering
from labrunner.executor.cluster.members.node import NODE_PACE, Node, NodePace
from labrunner.executor.cluster.members.unusable import Unusable
from labrunner.executor.cluster.members.welcome import Begin, explain, have_begun
from labrunner.executor.cluster.rayport import ClusterPort, NodeLost, RayNode
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.files.uninterrupted import wait_out

T = TypeVar("T")


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
        self._prepare, self._begin = prepare, begin
        self._port, self.pace = port, pace
        self._census = Census(plan, port, pace)
        self.end = ""
        """Why no node will ever be used again, once that is so."""
        self._joined: dict[str, Node] = {}
        """By name."""
        self.unusable = Unusable(pace)
        self.orphaned: dict[str, set[str]] = {}
        """By node, attempts whose worker died under them, or that are yet to be gone on with: its next worker
        is not to sweep them away."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed: Callable[[], None] = lambda: None
        self._waiting = asyncio.Event()
        self._is_watching = False
        self._opening = asyncio.Lock()
        self._joining: set[str] = set()
        """Names of which a node is being tried."""

    @property
    def joined(self) -> tuple[Node, ...]:
        """Those whose workers have begun."""
        return tuple(self._joined.values())

    @property
    def there(self) -> tuple[RayNode, ...]:
        """Those that Ray has, as far as was last seen; a name may stand there more than once."""
        return self._census.nodes

    @property
    def problems(self) -> dict[str, str]:
        """Why nodes are not used, by name."""
        return self.unusable.problems

    @property
    def count(self) -> int:
        """How many nodes can be used at a time, of those that Ray has."""
        return len(self._census.names)

    @property
    def places(self) -> int:
        """How many attempts the open ones carry out at once."""
        return sum(node.begun.places for node in self._joined.values() if node.is_open)

    def find(self, name: str) -> Node | None:
        """The node of a name that is used, if one has joined."""
        return self._joined.get(name)

    def is_there(self, name: str) -> bool:
        """Whether Ray has a node of that name, as far as was last seen."""
        return bool(self._census.find(name))

    async def until_due(self, names: Collection[str]) -> None:
        """Wait until a node of each of these names may be tried."""
        await self.unusable.until_due([self._census.find(name) for name in names])

    async def while_heard(self, work: Callable[[], Awaitable[T]]) -> T:
        """What comes of work that needs the cluster: whoever joins, opens or asks nodes does it in here.

        Raises HeadLost, and SandboxFailed without any cluster.
        """
        if self.end:
            raise SandboxFailed(NO_CLUSTER, self.end)
        try:
            return await self._census.while_heard(work)
        except HeadLost as lost:
            self._give_all_up(lost.advise())
            raise

    async def join(self) -> None:
        """Have a worker on every node that is wanted and there. Raises HeadLost, and SandboxFailed."""
        if self.end:
            raise SandboxFailed(NO_CLUSTER, self.end)
        await self._prepare()
        await self._look_until_heard()
        async with asyncio.TaskGroup() as group:
            for name in self._find_new():
                group.create_task(self._join(name))
        while self._joining:
            await self.wait_for_change()

    async def _look_until_heard(self) -> None:
        while True:
            with suppress(NodeLost):  # its head may be back soon
                await self._census.look()
                return
            await asyncio.sleep(self.pace.look_s)

    async def open(self) -> None:
        """Use every node that shows that it can be used, now and from now on those that join later."""
        async with self._opening:
            if self._is_watching or self.end:
                return
            with suppress(HeadLost):  # who opened looks for the end
                await self.while_heard(self._open)
                self._is_watching = True
                self._own(self._watch())

    async def _open(self) -> None:
        await self.join()
        async with asyncio.TaskGroup() as group:
            for node in self.joined:
                group.create_task(self._try(node))

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

    async def wait_for_change(self) -> None:
        """Wait until a place may be free, or a node came or went."""
        self._waiting.clear()
        await self._waiting.wait()

    def lose(self, node: Node, why: str) -> None:
        """A worker is gone: nothing is told to it any more, and it is ended, should it live."""
        if node.is_lost:
            return
        node.is_lost, node.is_open, node.loss = True, False, why
        if self._joined.get(node.name) is node:
            del self._joined[node.name]
            self.unusable.tell(node, f"its worker is gone ({why})")
        self.orphaned.setdefault(node.name, set()).update(node.calls)
        node.worker.kill()
        self._tell()

    def shut(self, node: Node, why: str) -> None:
        """A node can take nothing new for now; what is under way there goes on, then it is tried again."""
        if node.is_open:
            node.is_open, node.is_shut = False, True
            self.unusable.add(node, why)
            self._tell()

    async def close(self) -> None:
        """End the workers; what was not released stays on their nodes."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        cancelled = [await wait_out(task) for task in tasks]
        closing = [asyncio.ensure_future(self._close(node)) for node in self.joined]
        self._joined.clear()
        cancelled += [await wait_out(each) for each in closing]
        for told in filter(None, cancelled):
            raise told

    async def _close(self, node: Node) -> None:
        node.is_lost, node.is_open = True, False
        with suppress(NodeLost, SandboxFailed, TimeoutError):
            async with asyncio.timeout(self.pace.close_s):
                await node.worker.call("close")
        node.worker.kill()

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._see_end)

    def _see_end(self, task: asyncio.Task[None]) -> None:
        """Whatever fails here by a bug ends the run in order: else it would wait for nodes for ever."""
        self._tasks.discard(task)
        if task.cancelled() or (bug := task.exception()) is None:
            return
        told = "looking after the nodes of the cluster failed"
        task.get_loop().call_exception_handler({"message": told, "exception": bug, "task": task})
        self._give_all_up(f"{told}, by a bug: {type(bug).__name__}: {bug}; to go on: lab continue")

    def _tell(self) -> None:
        self._waiting.set()
        self._changed()

    def _find_new(self) -> list[str]:
        """Names of which no node is used or being tried, and one may be."""
        due = {node.name for node in self._census.nodes if self.unusable.is_due(node)}
        return sorted(due - self._joined.keys() - self._joining)

    async def _watch(self) -> None:
        """Have nodes that come join; nodes that Ray has no more get nothing new."""
        while True:
            await asyncio.sleep(self.pace.look_s)
            try:
                await self._census.look()
            except HeadLost as lost:
                self._give_all_up(lost.advise())
                return
            except NodeLost as lost:
                self.problems["the cluster's head"] = f"does not answer ({lost})"
                self._tell()
                continue
            self.problems.pop("the cluster's head", None)
            there = {node.id for node in self._census.nodes}
            for node in self.joined:
                if node.id not in there:
                    self.lose(node, "Ray has the node no more")
            for name in self._find_new():
                self._own(self._join_late(name))
            for node in self.joined:
                if node.is_shut and not node.calls and self.unusable.is_due(node):
                    node.is_shut = False
                    self._own(self._try(node))
            self._waiting.set()

    def _give_all_up(self, why: str) -> None:
        self.end = why
        self._census.close()
        for node in self.joined:
            self.lose(node, why)
        self._tell()

    async def _join_late(self, name: str) -> None:
        await self._join(name)
        if (joined := self.find(name)) is not None:
            await self._try(joined)

    async def _join(self, name: str) -> None:
        """Have a worker begin on a node of a name: on the next one where it can't be on the first."""
        if name in self._joining:
            return
        self._joining.add(name)
        tried: set[str] = set()
        try:
            while name not in self._joined:
                untried = [node for node in self._census.find(name) if node.id not in tried]
                if (node := self.unusable.choose(untried)) is None:
                    return
                tried.add(node.id)
                await self._begin_on(node)
        finally:
            self._joining.discard(name)
            self._tell()

    async def _begin_on(self, ray: RayNode) -> None:
        """Have a worker begin; a node where that can't be is named with its problem."""
        try:
            node = await have_begun(ray, self._port, self._begin, self.pace)
        except (NodeLost, TimeoutError, LabError) as error:
            self.unusable.add(ray, explain(error, self.pace))
        else:
            self._joined[node.name] = node
            self.unusable.prefer(node)
            self._own(self._stay(node))

    async def _stay(self, node: Node) -> None:
        """Hear at once when a worker dies, and soon when it hangs."""
        try:
            await while_answering(node.worker.tell("stay"), node.worker, self.pace)
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
            self._give_up(node, f"its worker is gone ({node.loss or lost})")
        except SandboxFailed as failure:
            self._give_up(node, str(failure))
        else:
            node.is_open = not node.is_lost
            self.unusable.forget(node)
            self._tell()

    def _give_up(self, node: Node, why: str) -> None:
        self.lose(node, why)
        self.unusable.add(node, why)
