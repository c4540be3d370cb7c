"""The one writer of a run, as asyncio sees it.

Rules: `finish` returns when the slot is durable. What arrives while the thread syncs is made durable
together, in one group. After a failed write or sync nothing more is written: every call fails until
the writer is left.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from labrunner.errors import StoreError
from labrunner.files.uninterrupted import wait_out
from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.facts.outage_note import OutageNote
from labrunner.records.rows import SlotRows
from labrunner.records.run import StatusRecord
from labrunner.records.seals import seal
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.buffer import Event
from labrunner.store.committing.committer import Arrival
from labrunner.store.layout import RunPaths
from labrunner.store.opening.opening import OpeningReport
from labrunner.store.rows.single_records import read_run
from labrunner.store.rows.slot_bytes import encode_slot
from labrunner.store.writing.thread import (
    Barrier,
    CutOff,
    FailedAttempt,
    GraderStarted,
    Leave,
    Note,
    OnNode,
    OutageNoted,
    Settle,
    Status,
    Summary,
    Wish,
    WriterThread,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCounts:
    """How many slots have a durable result."""

    committed: int
    buffered: int


class RunWriter:
    """The owner's handle on a run. Made by `open_writer`; used from one event loop."""

    def __init__(self, run_id: str, thread: WriterThread) -> None:
        """Speak to a thread that has opened the run."""
        self.opening: OpeningReport = thread.report
        """What was found and mended when the run was opened."""
        self._run_id = run_id
        self._thread = thread
        self._committer = thread.committer

    @property
    def next_idx(self) -> int:
        """The first slot that is not committed."""
        return self._committer.finished.committed

    @property
    def chain(self) -> str:
        """The run's digest so far."""
        return self._committer.chain

    def is_finished(self, schedule_idx: int) -> bool:
        """Whether a slot has a durable result, committed or buffered."""
        return schedule_idx in self._committer.finished

    def counts(self) -> FinishedCounts:
        """How many slots have a durable result."""
        finished = self._committer.finished
        return FinishedCounts(committed=finished.committed, buffered=finished.buffered)

    async def finish(self, rows: SlotRows, *, token: str) -> bool:
        """Make a final slot durable.

        False when it was refused: the slot is committed already, another dispatch finished it, or this one
        was cut off. The
        same rows under the same token, while they wait in the buffer, are accepted again and change
        nothing. Raises ValueError for rows that are not what their schema says.
        """
        return await self._ask(Arrival(slot=encode_slot(self._run_id, rows), token=token))

    async def note_dispatch(
        self, token: str, schedule_idx: int, trial_id: str, attempt: int, *, durable: bool
    ) -> None:
        """Note an attempt before its sandbox is made.

        Not durable: stored within moments and not synced, so it outlives this process but no power cut.
        """
        note = AttemptNote(token=token, schedule_idx=schedule_idx, trial_id=trial_id, attempt=attempt)
        await self._note(note, durable=durable)

    def note_node(self, token: str, node: str) -> None:
        """Note which node of a cluster carries an attempt out; without waiting, stored within moments."""
        self._refuse_if_broken()
        self._thread.leave_note(OnNode(token, node))

    async def note_barrier(self, token: str, payload: bytes, *, durable: bool) -> None:
        """Note that the agent has ended, with what is needed to grade it after a crash."""
        await self._note(Barrier(token, payload), durable=durable)

    async def note_grader_started(self, token: str, *, durable: bool) -> None:
        """Note that a grader is about to touch the workspace."""
        await self._note(GraderStarted(token), durable=durable)

    async def note_failed(self, token: str, payload: bytes) -> None:
        """Keep a failed attempt's completion until its trial is final, durably."""
        await self._note(FailedAttempt(token, payload), durable=True)

    async def note_cut_off(self, token: str) -> None:
        """Forget an attempt that a crash ended; its slot is owed."""
        await self._note(CutOff(token), durable=False)

    def put_event(self, event: Event) -> None:
        """Keep a transcript's event until its slot is finished; without waiting, from any thread."""
        self._refuse_if_broken()
        self._thread.leave_note(event)

    async def settle(self) -> None:
        """Return when every slot that can be committed is: `finish` does not wait for those behind it."""
        await self._ask(Settle())

    async def write_status(self, status: StatusRecord) -> None:
        """Replace `status.json`."""
        data = canonical.encode_line(seal(status))
        schema.validate("status_v1", data)
        await self._ask(Status(data))

    async def write_summary(self, data: bytes) -> None:
        """Replace `benchmark/summary.json`."""
        schema.validate("benchmark_summary_v1", data)
        await self._ask(Summary(data))

    async def note_outage(self, outage: OutageNote) -> None:
        """Note in `facts/outages.json` that an outage began, or is over."""
        await self._ask(OutageNoted(outage))

    async def _note(self, note: Note, *, durable: bool) -> None:
        if durable:
            await self._ask(note)
        else:
            self._refuse_if_broken()
            self._thread.leave_note(note)

    async def _ask(self, wish: Wish) -> bool:
        self._refuse_if_broken()
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._thread.put(wish, answer)
        return await answer

    def _refuse_if_broken(self) -> None:
        if self._thread.broken is not None:
            raise StoreError(f"the run's storage failed: {self._thread.broken}") from self._thread.broken


@asynccontextmanager
async def open_writer(paths: RunPaths) -> AsyncIterator[RunWriter]:
    """Own a run: lock it, bring it to a sound state, and write to it until the context is left.

    Raises RunLocked, DamagedRun or StoreError.
    """
    run_id = read_run(paths).run_id
    thread = WriterThread(paths, asyncio.get_running_loop())
    thread.start()
    try:
        await asyncio.shield(thread.opened)
        yield RunWriter(run_id, thread)
    finally:
        thread.put(Leave())
        await _wait_closed(thread)
    if thread.broken is not None:
        raise StoreError(f"the run's storage failed: {thread.broken}") from thread.broken


async def _wait_closed(thread: WriterThread) -> None:
    """Wait until the run is nobody's, also when cancelled: until then it is still being written."""
    cancelled = await wait_out(thread.closed)
    thread.closed.result()
    if cancelled is not None:
        raise cancelled
