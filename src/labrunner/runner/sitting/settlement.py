"""What follows from a completed attempt: its slot's rows, a retry, or a wait for the end of an outage.

Rules: a slot is finished when the store says that it is durable, and only then counted and released. What
was used is counted before anything is decided. A cancelled attempt has no consequence: its slot stays owed.
"""

import asyncio
import random
import time
from dataclasses import dataclass

import msgspec

from labrunner.executor.door import Executor
from labrunner.policy.breaker import Ruling
from labrunner.policy.retry import Retry, decide_retry
from labrunner.records.cause import Cause
from labrunner.records.completion import Cancelled, Completion, Failed, Graded
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunError
from labrunner.runner.sitting.gate import DispatchGate
from labrunner.runner.sitting.job import Job
from labrunner.runner.sitting.leavings import SANDBOX_ONLY, choose_leavings
from labrunner.runner.sitting.publication import Publisher
from labrunner.runner.sitting.queue import Pending, Work, WorkQueue
from labrunner.runner.sitting.stopping import GaveUp
from labrunner.runner.sitting.tallies import Tallies
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Brings the slots of completed attempts to their end, or back into the queue."""

    job: Job
    executor: Executor
    writer: RunWriter
    tallies: Tallies
    publisher: Publisher
    queue: WorkQueue
    gate: DispatchGate
    changed: asyncio.Event
    """Set when whoever dispatches has to look at queue and gate again."""

    async def follow(self, work: Work, assignment: Assignment, completion: Completion) -> None:
        """Count what an attempt used, and bring its slot to its end or back into the queue."""
        if isinstance(completion.end, Cancelled):
            return
        self.gate.spending.add(completion.timing.usage, is_graded=isinstance(completion.end, Graded))
        self.tallies.warning = self.gate.warn(self.tallies.planned)
        match completion.end:
            case Failed() as failure:
                pending = Pending(work=work, assignment=assignment, completion=completion, failure=failure)
                await self._rule(self._hear_of(pending))
            case _:
                await self._rule(self.gate.breaker.on_grade())
                await self._publish(assignment, (*work.history, completion))

    def _hear_of(self, pending: Pending) -> Ruling[Pending]:
        """Ask the breaker, unless this very error ends the run: then there is nothing to wait for."""
        policy = self.job.experiment.policy
        ends_run = policy.fail_on_error is True and not policy.continue_on_fail
        if ends_run and self._retry_after(pending) is None:
            return Ruling(decide=[pending])
        return self.gate.breaker.on_failure(pending.failure.cause, pending, time.monotonic())

    async def settle_held(self) -> bool:
        """Nothing more will come: decide what the breaker holds back. Whether there was anything."""
        ruling = self.gate.breaker.let_go()
        await self._rule(ruling)
        return bool(ruling.decide)

    async def _rule(self, ruling: Ruling[Pending]) -> None:
        for pending in ruling.owe:
            # Forgotten before its slot is carried out again: notes speak of folders that are then another's.
            await self.writer.note_cut_off(pending.assignment.token)
            await self.executor.release(pending.assignment, SANDBOX_ONLY)
            afresh = Work(slot=pending.work.slot, history=pending.work.history)
            self.queue.put_back(afresh, ready_at=time.monotonic())
        for pending in ruling.decide:
            await self._decide(pending)
        self.changed.set()

    async def _decide(self, pending: Pending) -> None:
        """Retry a failed attempt's trial, or make its failure final."""
        attempts = (*pending.work.history, pending.completion)
        retry = self._retry_after(pending)
        if retry is not None:
            await self.writer.note_failed(pending.assignment.token, msgspec.json.encode(pending.completion))
            await self.executor.release(pending.assignment, SANDBOX_ONLY)
            again = Work(slot=pending.work.slot, history=attempts)
            self.queue.put_back(again, ready_at=time.monotonic() + retry.wait_s)
            return
        self._count_error(pending.assignment, pending.failure)
        await self._publish(pending.assignment, attempts)

    def _retry_after(self, pending: Pending) -> Retry | None:
        return decide_retry(
            pending.failure.cause,
            attempt=len(pending.work.history) + 1,
            retry_on_error=self.job.experiment.policy.retry_on_error,
            jitter=random.random(),
        )

    async def _publish(self, assignment: Assignment, attempts: tuple[Completion, ...]) -> None:
        cut_offs = self.job.find_cut_offs(assignment.trial_id)
        rows = self.publisher.rows(assignment, attempts, cut_offs)
        try:
            is_taken = await self.writer.finish(rows, token=assignment.token)
        except ValueError as error:
            # A row that its own schema refuses is a bug of ours: one trial's result, not the run's end.
            await self._publish_bug(assignment, attempts, error)
            return
        if is_taken:
            self._count_finished(rows)
            await self._release(assignment, rows)

    async def _publish_bug(
        self, assignment: Assignment, attempts: tuple[Completion, ...], error: ValueError
    ) -> None:
        failure = Failed(cause=Cause.RUNNER, reason="row_refused", message=str(error)[:2000])
        last = msgspec.structs.replace(attempts[-1], end=failure, files=())
        timing = msgspec.structs.replace(last.timing, message=failure.message)
        rows = self.publisher.rows(assignment, (*attempts[:-1], msgspec.structs.replace(last, timing=timing)))
        self._count_error(assignment, failure)
        if await self.writer.finish(rows, token=assignment.token):
            self._count_finished(rows)

    def _count_error(self, assignment: Assignment, failure: Failed) -> None:
        self.tallies.count_error(failure.cause)
        error = RunError(message=failure.message, cause=failure.cause, trial_id=assignment.trial_id)
        if self.tallies.first_error is None:
            self.tallies.first_error = error
        policy = self.job.experiment.policy
        if not policy.continue_on_fail and self.tallies.is_over_threshold(policy):
            self.job.stop.ask(GaveUp(error=error))

    def _count_finished(self, rows: SlotRows) -> None:
        self.tallies.count_verdict(rows.trial.verdict)
        self.job.on_finished(rows)

    async def _release(self, assignment: Assignment, rows: SlotRows) -> None:
        drop = choose_leavings(
            self.job.experiment.policy.keep,
            is_good=rows.trial.verdict == "pass",
            keep_sandbox=self.job.keep_sandbox,
        )
        await self.executor.release(assignment, drop)
