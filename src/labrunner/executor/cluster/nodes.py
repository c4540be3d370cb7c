"""The nodes of a run: which are there, which have joined, what each has to give; they come and go.

Rules: a node is known by its name, which stays when it is started again. It is used once a worker of it has
begun, has shown that attempts can be carried out there, and has removed what nobody will go on with. Who died
is found anew while Ray still has the node; what it was at waits for that, and for no longer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from labrunner.errors import LabError, SandboxFailed
from labrunner.executor.cluster import rayport
from labrunner.executor.cluster.rayport import NodeLost, RayNode, RayWorker
from labrunner.executor.cluster.tidings import Begun, WorkerHello, decode, encode
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.files.uninterrupted import wait_out
from labrunner.sandbox.door import Check, Survivor

LOOK_S: Final = 1.0
"""How often it is looked which nodes there are."""
START_S: Final = 120.0
"""How long a worker may take to say who it is: a node's first one loads this program."""
AGAIN_S: Final = 5.0
"""After a node could not be used, it is tried again; each time twice as late."""
LATEST_S: Final = 300.0
CLOSE_S: Final = 20.0

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

    def __init__(self, plan: ExecutorPlan, prepare: Callable[[], Awaitable[object]], begin: Begin) -> None:
        """Look at nothing yet; `prepare` is called before any worker is started."""
        self._plan, self._prepare, self._begin = plan, prepare, begin
        self._joined: dict[str, Node] = {}
        self.problems: dict[str, str] = {}
        """Why nodes are not used, by name."""
        self.orphaned: dict[str, set[str]] = {}
        """By node, attempts whose worker died under them: its next one is not to sweep them away."""
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
        await rayport.connect(self._plan.address)
        await self._prepare()
        await self._look()
        async with asyncio.TaskGroup() as group:
            for node in self._find_new():
                group.create_task(self._join(node))

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
            async with asyncio.timeout(CLOSE_S):
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
        self._there = tuple(node for node in await rayport.list_nodes() if self._is_wanted(node.labels))

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
            await asyncio.sleep(LOOK_S)
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
        worker: RayWorker | None = None
        try:
            async with asyncio.timeout(START_S):
                worker = rayport.start_worker(node)
                hello = decode(await worker.call("introduce"), WorkerHello)
            begun = await self._begin(worker, node.name, hello)
        except TimeoutError:
            self._refuse(node, worker, f"no worker was started within {START_S:.0f} s")
        except NodeLost as lost:
            self._refuse(node, worker, f"no worker could be started: {lost}; is labrunner installed there?")
        except LabError as error:
            self._refuse(node, worker, str(error))
        else:
            joined = Node(id=node.id, name=node.name, worker=worker, begun=begun)
            self._joined[node.id] = joined
            self._own(self._stay(joined))
        finally:
            self._joining.discard(node.id)

    def _refuse(self, node: RayNode, worker: RayWorker | None, why: str) -> None:
        self.problems[node.name] = why
        _, wait = self._not_before.get(node.name, (0.0, AGAIN_S))
        self._not_before[node.name] = (time.monotonic() + wait, min(2 * wait, LATEST_S))
        if worker is not None:
            worker.kill()
        self._tell()

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
                await node.reap(frozenset(self.orphaned.get(node.name, set()) | node.taken))
        except NodeLost as lost:
            self.lose(node, str(lost))
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
        _, wait = self._not_before.get(node.name, (0.0, AGAIN_S))
        self._not_before[node.name] = (time.monotonic() + wait, min(2 * wait, LATEST_S))
