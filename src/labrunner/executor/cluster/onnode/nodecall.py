"""One attempt on a node: what it tells its coordinator, and how far it goes before it was heard.

Rules: a note that must be durable first is told, and the attempt waits until it is acknowledged. Behind its
last note come the files that stay, then how it ended. Of what is under way at once there is little: whoever
reads slowly is not flooded.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

from labrunner.errors import AttemptFailed, LabError, StoreError
from labrunner.executor.cluster import tidings
from labrunner.executor.cluster.parcels import digest, pack
from labrunner.executor.cluster.tidings import (
    BarrierTold,
    ConnectionAsked,
    ConnectionLeft,
    Ended,
    EventTold,
    GoneTold,
    GraderTold,
    NodeFailure,
    PieceTold,
    Told,
)
from labrunner.experiment.run_policy import Keep
from labrunner.files.layering.layernote import LAYER
from labrunner.files.strangers.masking import Masker
from labrunner.gateway.recording.awaycalls import AWAY
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion
from labrunner.trial.assignment import Assignment, Notes
from labrunner.trial.collecting.collection import keeps_workspace
from labrunner.trial.ledger import MOST_TOLD

STAYS_HERE: Final = frozenset({"ctl", "agent", "scratch", "grader", AWAY})
"""What of an attempt's folder is for its sandbox alone; and who paid for its calls is known at home."""
UNHEARD: Final = 8
"""So many pieces may be under way."""
CANCELLED: Final = "cancelled"
BUG: Final = "node_bug"
DISK: Final = "node_disk"
"""The node's disk takes nothing any more, or may have no more files open."""


class NodeCall:
    """An attempt under way: hears its notes, and tells them on."""

    def __init__(
        self, carry_out: Callable[[Notes], Awaitable[Completion]], root: Path, keep: Keep, masker: Masker
    ) -> None:
        """Take how it is carried out, where its folder is, which workspaces are kept, and what is secret."""
        self._carry_out, self._root, self._keep, self._masker = carry_out, root, keep, masker
        self._told: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._numbers = count()
        self._heard: dict[int, asyncio.Event] = {}
        self._loop = asyncio.get_running_loop()
        self._work: asyncio.Task[None] | None = None
        self._is_cancelled = False

    async def messages(self) -> AsyncIterator[bytes]:
        """Carry it out; everything that is told."""
        self._work = asyncio.ensure_future(self._run())
        if self._is_cancelled:
            self._work.cancel()
        while (told := await self._told.get()) is not None:
            yield told

    def acknowledge(self, seq: int) -> None:
        """What was told has been heard, and is durable."""
        if (heard := self._heard.get(seq)) is not None:
            heard.set()

    async def cancel(self) -> None:
        """End it; everything of the attempt has ended on return."""
        self._is_cancelled = True
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _run(self) -> None:
        try:
            with AttemptFailed.during(BUG, "carrying it out"):  # our own: the worker has other attempts, too
                completion = await self._carry_out(self)
                await self._send_files(completion)
                self._put(Ended(completion=completion))
        except asyncio.CancelledError:
            self._put(NodeFailure(reason=CANCELLED, message="was cancelled"))
            raise
        except AttemptFailed as failure:
            self._fail(failure.reason, failure)
        except LabError as error:
            self._fail(DISK if isinstance(error, StoreError) else "node", error)
        finally:
            self._told.put_nowait(None)

    def _fail(self, reason: str, error: LabError) -> None:
        """Tell what is wrong, without secrets: nobody masks it at home."""
        told, mask = None, self._masker.mask_text
        if reason == BUG:
            told = mask("".join(traceback.format_exception(error.__cause__)))[-MOST_TOLD:]
        message = mask(str(error))[:MOST_TOLD]
        self._put(NodeFailure(reason=reason, message=message, traceback=told))

    def placed(self, token: str, node: str) -> None:
        """Known to the coordinator, which has placed it."""
        del token, node

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        """The agent has ended."""
        del token
        await self._tell(lambda seq: BarrierTold(seq=seq, note=note))

    async def grader_starting(self, token: str) -> None:
        """A grader is about to start."""
        del token
        await self._tell(lambda seq: GraderTold(seq=seq))

    def sandbox_gone(self, token: str) -> None:
        """Nothing of it runs any more."""
        del token
        self._put(GoneTold())

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        """An event, from any thread."""
        del assignment
        self._loop.call_soon_threadsafe(self._put, EventTold(seq=seq, line=line))

    @asynccontextmanager
    async def lend(self, provider: str, most: int) -> AsyncIterator[None]:
        """While inside, one of the connections that the whole run has to a provider."""
        asked: list[int] = []

        def ask(seq: int) -> Told:
            asked.append(seq)
            return ConnectionAsked(seq=seq, provider=provider, most=most)

        try:
            await self._tell(ask)
            yield
        finally:
            for seq in asked:
                self._put(ConnectionLeft(seq=seq))

    def _put(self, told: Told) -> None:
        self._told.put_nowait(tidings.encode(told))

    async def _tell(self, make: Callable[[int], Told]) -> None:
        """Tell something, and wait until it has been heard."""
        seq = next(self._numbers)
        heard = self._heard[seq] = asyncio.Event()
        try:
            self._put(make(seq))
            await heard.wait()
        finally:
            del self._heard[seq]

    async def _send_files(self, completion: Completion) -> None:
        pieces = self._pack(completion)
        for number in count(1):
            piece = await asyncio.to_thread(next, pieces, None)
            if piece is None:
                return
            sum_ = digest(piece)
            if number % UNHEARD:
                self._put(PieceTold(piece=piece, digest=sum_))
            else:
                await self._tell_piece(piece, sum_)

    async def _tell_piece(self, piece: bytes, sum_: bytes) -> None:
        await self._tell(lambda seq: PieceTold(piece=piece, digest=sum_, seq=seq))

    def _pack(self, completion: Completion) -> Iterator[bytes]:
        """What of its folder stays, and so goes where the run lies."""
        left_out = set(STAYS_HERE)
        if not keeps_workspace(self._keep, completion.end):
            left_out.add("workspace")
        if all(ref.path != LAYER for ref in completion.timing.logs):
            left_out.add(LAYER)
        if not self._root.is_dir():
            return iter(())
        return pack(self._root, left_out)
