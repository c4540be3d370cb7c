"""A run's worker on a node, as Ray starts it: one process a node, which the run's coordinator speaks to.

Rules: it takes and gives texts and bytes alone. What goes wrong is answered, not raised, so that Ray writes
no traceback of ours anywhere; what it raises all the same holds nothing of a run.
"""

import asyncio
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from labrunner.errors import AttemptFailed, LabError
from labrunner.executor.cluster import tidings
from labrunner.executor.cluster.onnode.nodeplace import NodePlace, ParcelArrival
from labrunner.executor.cluster.onnode.nodework import NodeWork
from labrunner.executor.cluster.parcels import BadParcel, Unpacking
from labrunner.executor.cluster.strongbox import Strongbox
from labrunner.executor.cluster.tidings import AttemptOrder, Charge, NodeFailure, WorkerHello
from labrunner.executor.cluster.wire.farend import FarEnd
from labrunner.executor.door import Discard
from labrunner.gateway.process.control import Lend
from labrunner.trial.assignment import Assignment
from labrunner.version import VERSION


class Worker:
    """Ray's actor. Answers are bytes: `+` and what was asked for, or `-` and what is wrong."""

    def __init__(self, node: str) -> None:
        """Know the node's name; nothing is touched yet."""
        self._node = node
        self._box: Strongbox | None = None
        self._place: NodePlace | None = None
        self._work: NodeWork | None = None
        self._arrivals: dict[str, ParcelArrival] = {}
        self._folders: dict[str, Unpacking] = {}
        self._wire: FarEnd | None = None

    async def hear(self, batch: bytes) -> None:
        """Take what the coordinator asks, in one batch; answers are taken with `take`."""
        self._at_wire().hear(batch)

    async def take(self) -> bytes:
        """The next batch of what is answered, once there is anything."""
        return await self._at_wire().take()

    async def introduce(self) -> bytes:
        """Say who this is."""
        return await _answer(self._introduce)

    async def stay(self) -> None:
        """Never answers: whoever waits for it hears when this process ends."""
        await asyncio.Event().wait()

    async def ping(self) -> None:
        """Answers at once: whoever asks hears that this process is not stopped."""

    async def lacks(self, keys: bytes) -> bytes:
        """Which of these parcels are not here."""

        async def look() -> list[str]:
            place = self._there()
            return [key for key in tidings.decode(keys, list[str]) if not place.has(key)]

        return await _answer(look)

    async def receive(self, key: str, piece: bytes | None) -> bytes:
        """Take the next piece of a parcel; None ends it."""
        return await _answer(lambda: asyncio.to_thread(self._receive, key, piece))

    async def receive_folder(self, assignment: bytes, piece: bytes | None) -> bytes:
        """The same for the folder of an attempt."""
        asked = tidings.decode(assignment, Assignment)
        begin = partial(self._at_work().take_folder, asked)
        return await _answer(lambda: asyncio.to_thread(self._receive_folder, asked.token, begin, piece))

    async def receive_tapes(self, assignment: bytes, piece: bytes | None) -> bytes:
        """The same for the recorded calls that answer an attempt's."""
        asked = tidings.decode(assignment, Assignment)
        begin = partial(self._at_work().take_tapes, asked)
        return await _answer(lambda: asyncio.to_thread(self._receive_folder, asked.token, begin, piece))

    async def begin(self, charge: bytes, sealed: bytes) -> bytes:
        """Begin to work for a run."""

        async def begin() -> object:
            if self._box is None:
                raise AttemptFailed("node", "a worker was told to begin before it was asked who it is")
            secrets = self._box.open(sealed)
            self._work = await NodeWork.begin(tidings.decode(charge, Charge), self._there(), secrets)
            return self._work.begun

        return await _answer(begin)

    async def preflight(self) -> bytes:
        """Try whether attempts can be carried out here."""
        return await _answer(lambda: self._at_work().preflight())

    async def carry_out(self, order: bytes) -> AsyncIterator[bytes]:
        """Carry out an attempt; what is told of it."""
        asked = tidings.decode(order, AttemptOrder)
        work = self._at_work()
        try:
            async for told in work.call(asked).messages():
                yield told
        finally:
            work.forget(asked.assignment.token)

    async def statements(self) -> AsyncIterator[bytes]:
        """How the gateway here stands with the run's funds; never ends while it works."""
        async for told in self._at_work().statements():
            yield told

    async def lend(self, lend: bytes) -> None:
        """How the run's funds stand with the gateway here."""
        await self._at_work().lend(tidings.decode(lend, Lend))

    async def acknowledge(self, token: str, seq: int) -> None:
        """A note has been heard."""
        self._at_work().acknowledge(token, seq)

    async def cancel(self, token: str) -> bytes:
        """End an attempt."""
        return await _answer(lambda: self._at_work().cancel(token))

    async def release(self, assignment: bytes, drop: bytes) -> bytes:
        """Throw away what is left of an attempt."""
        asked, what = tidings.decode(assignment, Assignment), tidings.decode(drop, Discard)
        return await _answer(lambda: self._at_work().release(asked, what))

    async def survivors(self) -> bytes:
        """What an earlier worker left."""
        return await _answer(lambda: self._at_work().survivors())

    async def reap(self, keep: bytes) -> bytes:
        """Remove what earlier workers left, but these."""
        return await _answer(lambda: self._at_work().reap(frozenset(tidings.decode(keep, list[str]))))

    async def close(self) -> bytes:
        """Let go of all but what was not released."""
        work, self._work = self._work, None
        return await _answer(_nothing if work is None else work.close)

    async def _introduce(self) -> WorkerHello:
        self._box = Strongbox()
        self._place = await asyncio.to_thread(NodePlace.make, self._node)
        return WorkerHello(version=VERSION, host=platform.node(), key=self._box.key)

    def _at_wire(self) -> FarEnd:
        if self._wire is None:
            self._wire = FarEnd(self)
        return self._wire

    def _there(self) -> NodePlace:
        if self._place is None:
            raise AttemptFailed("node", "a worker was asked before it had said who it is")
        return self._place

    def _at_work(self) -> NodeWork:
        if self._work is None:
            raise AttemptFailed("node", "a worker was asked before it had begun")
        return self._work

    def _receive(self, key: str, piece: bytes | None) -> None:
        if key not in self._arrivals:
            self._arrivals[key] = ParcelArrival(self._there(), key, self._mark())
        if piece is not None:
            self._arrivals[key].take(piece)
        else:
            self._arrivals.pop(key).finish()

    def _receive_folder(self, token: str, begin: Callable[[], Unpacking], piece: bytes | None) -> None:
        if token not in self._folders:
            self._folders[token] = begin()
        if piece is not None:
            self._folders[token].take(piece)
        else:
            arrived = self._folders.pop(token)
            arrived.finish()
            arrived.close()

    def _mark(self) -> str:
        """What is this worker's alone."""
        return "" if self._box is None else self._box.key.hex()[:16]


async def _nothing() -> None:
    """Nothing to do."""


async def _answer(ask: Callable[[], Awaitable[object]]) -> bytes:
    try:
        return b"+" + tidings.encode(await ask())
    except AttemptFailed as failure:
        return b"-" + tidings.encode(NodeFailure(reason=failure.reason, message=str(failure)))
    except (LabError, OSError, BadParcel, ValueError) as error:
        return b"-" + tidings.encode(NodeFailure(reason="node", message=str(error)))
