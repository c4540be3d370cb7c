"""What a node tells of one attempt: handed on, brought home, and acknowledged once it is durable."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, assert_never

import msgspec

from labrunner.errors import AttemptFailed, SandboxFailed
from labrunner.executor.cluster.hearing.lending import Desk
from labrunner.executor.cluster.homecoming import Homecoming
from labrunner.executor.cluster.members.node import Node
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.onnode.nodecall import CANCELLED, DISK
from labrunner.executor.cluster.placement import WholeWork
from labrunner.executor.cluster.rayport import NodeLost
from labrunner.executor.cluster.tidings import (
    AttemptOrder,
    BarrierTold,
    ConnectionAsked,
    ConnectionLeft,
    Ended,
    EventTold,
    GoneTold,
    GraderTold,
    NodeFailure,
    PieceTold,
    decode_told,
    encode,
)
from labrunner.files.uninterrupted import see_out
from labrunner.records.completion import Completion
from labrunner.trial.assignment import Notes

P = ParamSpec("P")


class NodeFull(Exception):
    """A node's disk takes nothing any more: nobody's fault in the attempt, which is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ear:
    """Hears of one attempt to its end."""

    node: Node
    order: AttemptOrder
    work: WholeWork | None
    """What lies here whole, if anything does."""
    notes: Notes
    home: Homecoming
    desk: Desk
    nodes: Nodes

    @property
    def _token(self) -> str:
        return self.order.assignment.token

    async def hear(self) -> Completion:
        """Have it carried out, and hear how.

        Raises NodeLost, NodeFull, and AttemptFailed for what can't be done.
        """
        async for data in self.node.worker.stream("carry_out", encode(self.order)):
            match decode_told(data):
                case PieceTold(piece=piece, digest=told, seq=asked):
                    await _at_rest(self.home.take, piece, told)
                    if asked is not None:
                        await self._acknowledge(asked)
                case ConnectionAsked() | ConnectionLeft() as connection:
                    await self.desk.hear(connection)
                case Ended(completion=completion):
                    return await self._bring_home(completion)
                case NodeFailure() as failure:
                    raise self._blame(failure)
                case note:
                    await self._note(note)
        raise NodeLost("its worker said no more of it")

    async def _note(self, told: BarrierTold | GraderTold | GoneTold | EventTold) -> None:
        """Hand a note on; the node hears when it is durable."""
        match told:
            case BarrierTold(seq=seq, note=note):
                await self.notes.barrier_held(self._token, msgspec.structs.replace(note, node=self.node.name))
                await self._acknowledge(seq)
            case GraderTold(seq=seq):
                await self.notes.grader_starting(self._token)
                if self.work is not None:
                    self.work.has_grader_begun = True
                await self._acknowledge(seq)
            case GoneTold():
                self.notes.sandbox_gone(self._token)
                self.nodes.give_back(self.node, self._token)
            case EventTold(seq=seq, line=line):
                self.notes.add_event(self.order.assignment, seq, line)
            case other:
                assert_never(other)

    def _blame(self, told: NodeFailure) -> NodeLost | NodeFull | AttemptFailed:
        """Who is to blame where a node could not carry it out."""
        if told.reason == CANCELLED:
            return NodeLost("its worker was told to end it")
        message = f"node {self.node.name}: {told.message}"
        if told.traceback is not None:
            return AttemptFailed(told.reason, message, told.traceback)
        return NodeFull(told.message) if told.reason == DISK else SandboxFailed(told.reason, message)

    async def _acknowledge(self, seq: int) -> None:
        await self.node.worker.tell("acknowledge", self._token, seq)

    async def _bring_home(self, completion: Completion) -> Completion:
        if completion.token != self._token:
            told = f"node {self.node.name} told of another attempt than was asked for"
            raise SandboxFailed("node_confused", told)
        await _at_rest(self.home.finish, completion)
        self.node.calls.discard(self._token)
        self.nodes.orphaned.get(self.node.name, set()).discard(self._token)
        return completion


async def _at_rest(write: Callable[P, None], *words: P.args, **named: P.kwargs) -> None:
    """Write to this disk, aside; who is cancelled meanwhile leaves nothing behind that still writes."""
    await see_out(asyncio.to_thread(write, *words, **named), lambda: None)
