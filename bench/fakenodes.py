"""An executor whose nodes are made up: attempts take simulated time there, nodes are lost, answers come late.

Rules: nothing of an attempt is real but what the coordinator is told of it, which is what a cluster's
executor tells: where it runs, its barrier, its grader, its end. What comes of an attempt depends on its slot
alone, so every run of the same experiment ends with the same digest. An answer that comes after its node was
lost goes to the store under its old token, past the coordinator: there it has to be refused.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bench.idle import complete
from labrunner.executor.door import Discard
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Cancelled, Completion, Graded, PhaseFact
from labrunner.sandbox.door import Check, Survivor
from labrunner.trial.assignment import Assignment, Notes

_AT_BARRIER: Final = BarrierNote(agent=PhaseFact(exit_status=0))
LOST: Final = "node_lost"
DeliversLate = Callable[[Assignment, Completion], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How a cluster behaves."""

    seed: int = 1
    takes_s: float = 0.0
    """What an attempt takes on average at its node; 0: each ends at once."""
    latency_s: float = 0.002
    """From the coordinator to a node, or back."""
    dispatches_a_loss: int = 0
    """After so many dispatches another node is lost; 0: none ever."""
    away_s: float = 1.0
    """After so long a node that was lost takes attempts again."""


@dataclass(slots=True, eq=False)
class FakeNode:
    """One node, and the attempts that it has."""

    name: str
    is_lost: bool = False
    waits: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    """What each attempt waits for, by its token."""
    kept: int = 0
    """Places that nobody gets until it is back."""


@dataclass(slots=True)
class Happened:
    """What became of attempts."""

    dispatched: int = 0
    lost: int = 0
    late: int = 0
    most_at_once: int = 0
    waited_s: float = 0.0
    """How long all of them waited for their notes to be durable."""


class FakeCluster:
    """Carries attempts out on nodes that are not there."""

    def __init__(self, nodes: int, per_node: int, weather: Weather) -> None:
        """Make the nodes; all are there."""
        self.happened = Happened()
        self.deliver_late: DeliversLate | None = None
        self._weather = weather
        self._random = random.Random(weather.seed)
        self._nodes = [FakeNode(f"node-{number:04}/{_spell(number)}") for number in range(nodes)]
        self._free: asyncio.Queue[FakeNode] = asyncio.Queue()
        for _ in range(per_node):
            for node in self._nodes:
                self._free.put_nowait(node)
        self._late: set[asyncio.Task[None]] = set()
        self._at_once = 0

    async def preflight(self) -> tuple[Check, ...]:
        """Nothing to prove."""
        return ()

    def outlives_runner(self, assignment: Assignment) -> bool:
        """As containers on nodes do: each note is durable before anything follows from it."""
        del assignment
        return True

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Have a node carry it out; the loss of the node cuts it off."""
        del survivor
        node = await self._take()
        node.waits[assignment.token] = asyncio.get_running_loop().create_future()
        notes.placed(assignment.token, node.name)
        try:
            if not await self._is_answered(node, assignment.token):
                return self._cut_off(assignment, node)
            asked = time.monotonic()
            await notes.barrier_held(assignment.token, _AT_BARRIER)
            await notes.grader_starting(assignment.token)
            self.happened.waited_s += time.monotonic() - asked
            if node.is_lost:
                return self._cut_off(assignment, node)
            notes.sandbox_gone(assignment.token)
            return judge(assignment, node.name)
        finally:
            self._at_once -= 1
            del node.waits[assignment.token]
            self._give_back(node)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Nothing was left."""
        del assignment, drop

    async def survivors(self) -> tuple[Survivor, ...]:
        """Nobody."""
        return ()

    async def reap(self, keep: frozenset[str]) -> int:
        """Nothing is there."""
        del keep
        return 0

    async def close(self) -> None:
        """Wait for answers that are still on their way."""
        if self._late:
            await asyncio.wait(self._late)

    async def _take(self) -> FakeNode:
        """Get a place on a node that is there; now and then a node is lost at just this moment."""
        happened, every = self.happened, self._weather.dispatches_a_loss
        while (node := await self._free.get()).is_lost:
            node.kept += 1
        happened.dispatched += 1
        self._at_once += 1
        happened.most_at_once = max(happened.most_at_once, self._at_once)
        if every and happened.dispatched % every == 0:
            self._lose(self._random.choice([each for each in self._nodes if each is not node]))
        return node

    def _give_back(self, node: FakeNode) -> None:
        if node.is_lost:
            node.kept += 1
        else:
            self._free.put_nowait(node)

    async def _is_answered(self, node: FakeNode, token: str) -> bool:
        """Wait until the node has done its part; False when it was lost before."""
        answer, weather = node.waits[token], self._weather
        if weather.takes_s and not node.is_lost:
            after_s = 2 * weather.latency_s + weather.takes_s * self._random.uniform(0.5, 1.5)
            timer = asyncio.get_running_loop().call_later(after_s, _wake, answer)
            try:
                await answer
            finally:
                timer.cancel()
        else:
            await asyncio.sleep(0)
        return not node.is_lost

    def _lose(self, node: FakeNode) -> None:
        """A node is gone with all that it had; what it was doing goes on there, unheard."""
        if node.is_lost:
            return
        node.is_lost = True
        for answer in node.waits.values():
            _wake(answer)
        asyncio.get_running_loop().call_later(self._weather.away_s, self._return, node)

    def _return(self, node: FakeNode) -> None:
        node.is_lost = False
        for _ in range(node.kept):
            self._free.put_nowait(node)
        node.kept = 0

    def _cut_off(self, assignment: Assignment, node: FakeNode) -> Completion:
        self.happened.lost += 1
        answer = judge(assignment, node.name)
        if self.deliver_late is not None:
            late = asyncio.get_running_loop().create_task(self._answer_late(assignment, answer))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
        return msgspec.structs.replace(answer, end=Cancelled(reason=LOST))

    async def _answer_late(self, assignment: Assignment, answer: Completion) -> None:
        """What a node that was only cut off from us says, once it can."""
        await asyncio.sleep(self._random.uniform(0, 2 * self._weather.away_s))
        self.happened.late += 1
        assert self.deliver_late is not None
        await self.deliver_late(assignment, answer)


def judge(assignment: Assignment, node: str | None) -> Completion:
    """What comes of an attempt: by its slot alone, but for where it was."""
    done = complete(assignment)
    assert isinstance(done.end, Graded)
    timing = msgspec.structs.replace(done.timing, node=node)
    if assignment.slot.schedule_idx % 3:
        return msgspec.structs.replace(done, timing=timing)
    end = msgspec.structs.replace(done.end, verdict="fail", primary_metric_value=0.0, metrics={"score": 0.0})
    return msgspec.structs.replace(done, timing=timing, end=end)


def _wake(answer: asyncio.Future[None]) -> None:
    if not answer.done():
        answer.set_result(None)


def _spell(number: int) -> str:
    """How a node's id may begin."""
    return f"{(number * 2654435761) % 2**32:08x}"
