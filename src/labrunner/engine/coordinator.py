"""The coordinator: joins schedule, executor, policy and store for one run.

Rules: it is the one that decides; executors only carry out, the store only keeps. A slot is finished when
the store says that it is durable. Memory grows with what is in flight, never with what is done. Commits
are the store's and in schedule order; completions arrive in any.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from labrunner.engine.publication import Publisher
from labrunner.engine.queue import Work, WorkQueue
from labrunner.engine.stopping import StopRequest, TooManyErrors
from labrunner.executor.door import Executor, Leavings
from labrunner.experiment.model import Experiment, Keep
from labrunner.experiment.schedule import Schedule
from labrunner.policy.retry import decide_retry
from labrunner.policy.threshold import is_over
from labrunner.records.completion import Cancelled, Completion, Failed
from labrunner.records.ids import make_token, make_trial_id
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunError
from labrunner.store.writer import RunWriter
from labrunner.trial.assignment import Assignment

UNSETTLED_MARGIN: Final = 512
"""How many trials may wait for their commit beyond those that run."""


@dataclass(slots=True)
class Tallies:
    """Counts of a run under way, for displays and for the threshold."""

    planned: int
    running: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    retries: int = 0
    first_error: RunError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the coordinator is to carry out."""

    experiment: Experiment
    schedule: Schedule
    run_id: str
    concurrency: int
    grace_s: float
    stop: StopRequest
    on_finished: Callable[[SlotRows], None]
    """Called after a slot has become durable."""


class Coordinator:
    """Carries out one run's owed slots."""

    def __init__(self, job: Job, executor: Executor, writer: RunWriter, tallies: Tallies) -> None:
        """Take the doors; nothing starts before `run`."""
        self._job = job
        self._executor = executor
        self._writer = writer
        self.tallies = tallies
        self._publisher = Publisher(experiment=job.experiment, run_id=job.run_id)
        self._queue = WorkQueue(job.schedule, writer.is_finished, first=writer.next_idx)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._unsettled = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Carry out everything owed, or stop when asked to; everything finished is durable on return."""
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self._wake_on_stop())
            await self._dispatch(group)
            await self._drain()
            watcher.cancel()

    async def _dispatch(self, group: asyncio.TaskGroup) -> None:
        while not self._job.stop.stopped.is_set():
            if self._has_place():
                work = self._queue.take(time.monotonic())
                if work is not None:
                    self._start(group, work)
                    continue
                if not self._unsettled and self._queue.next_ready_at is None:
                    return
            await self._wait_for_change()

    def _has_place(self) -> bool:
        return (
            len(self._in_flight) < self._job.concurrency
            and self._unsettled < self._job.concurrency + UNSETTLED_MARGIN
        )

    async def _wait_for_change(self) -> None:
        """Wait until an attempt ended, a retry is ready, or somebody asked to stop."""
        ready_at = self._queue.next_ready_at
        wait_s = None if ready_at is None else max(0.0, ready_at - time.monotonic())
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def _wake_on_stop(self) -> None:
        await self._job.stop.stopped.wait()
        self._changed.set()

    def _start(self, group: asyncio.TaskGroup, work: Work) -> None:
        self._unsettled += 1
        task = group.create_task(self._settle(work))
        self._in_flight.add(task)
        self.tallies.running = len(self._in_flight)
        task.add_done_callback(self._on_settled)

    def _on_settled(self, task: asyncio.Task[None]) -> None:
        self._landed(task)
        self._unsettled -= 1

    def _landed(self, task: asyncio.Task[None] | None) -> None:
        """An attempt's sandbox is gone: its place is free, and from here on it is not to be cancelled."""
        self._in_flight.discard(task)
        self.tallies.running = len(self._in_flight)
        self._changed.set()

    async def _settle(self, work: Work) -> None:
        """Carry out one attempt and bring its slot to its end, or back into the queue."""
        assignment = self._assign(work)
        await self._writer.note_dispatch(
            assignment.token,
            assignment.slot.schedule_idx,
            assignment.trial_id,
            assignment.attempt,
            durable=False,
        )
        completion = await self._executor.carry_out(assignment, self)
        self._landed(asyncio.current_task())
        await self._follow(work, assignment, completion)

    async def _follow(self, work: Work, assignment: Assignment, completion: Completion) -> None:
        match completion.end:
            case Cancelled():
                return
            case Failed() as failure:
                attempts = (*work.history, completion)
                if self._retry(work, failure, attempts):
                    return
                self._count_error(assignment, failure)
            case _:
                attempts = (*work.history, completion)
        rows = self._publisher.rows(assignment, attempts)
        if await self._writer.finish(rows, token=assignment.token):
            self._count_finished(rows)
            await self._release(assignment, rows)

    def _retry(self, work: Work, failure: Failed, attempts: tuple[Completion, ...]) -> bool:
        retry = decide_retry(
            failure.cause,
            attempt=len(attempts),
            retry_on_error=self._job.experiment.policy.retry_on_error,
            jitter=random.random(),
        )
        if retry is None or self._job.stop.stopped.is_set():
            return retry is not None
        self.tallies.retries += 1
        again = Work(slot=work.slot, history=attempts)
        self._queue.put_back(again, ready_at=time.monotonic() + retry.wait_s)
        self._changed.set()
        return True

    def _count_error(self, assignment: Assignment, failure: Failed) -> None:
        self.tallies.errors += 1
        error = RunError(message=failure.message, cause=failure.cause, trial_id=assignment.trial_id)
        if self.tallies.first_error is None:
            self.tallies.first_error = error
        policy = self._job.experiment.policy
        if not policy.continue_on_fail and self.is_over_threshold():
            self._job.stop.ask(TooManyErrors(error=error))

    def is_over_threshold(self) -> bool:
        """Whether more trials have errors than `fail_on_error` tolerates."""
        threshold = self._job.experiment.policy.fail_on_error
        return is_over(threshold, errors=self.tallies.errors, planned=self.tallies.planned)

    def _count_finished(self, rows: SlotRows) -> None:
        if rows.trial.verdict == "pass":
            self.tallies.passed += 1
        elif rows.trial.verdict == "fail":
            self.tallies.failed += 1
        self._job.on_finished(rows)

    async def _release(self, assignment: Assignment, rows: SlotRows) -> None:
        keep, is_good = self._job.experiment.policy.keep, rows.trial.verdict == "pass"
        drop = Leavings(workspace=_drops(keep.workspace, is_good), logs=_drops(keep.logs, is_good))
        if drop.workspace or drop.logs:
            await self._executor.release(assignment, drop)

    def _assign(self, work: Work) -> Assignment:
        experiment, slot = self._job.experiment, work.slot
        variant, task = experiment.variants[slot.variant_idx], experiment.tasks[slot.task_idx]
        return Assignment(
            token=make_token(),
            slot=slot,
            trial_id=make_trial_id(variant.id, task.id, slot.repl_idx),
            attempt=work.attempt,
        )

    async def _drain(self) -> None:
        """Let what is in flight end within the grace, then end it."""
        deadline = time.monotonic() + self._job.grace_s
        hurried = self._job.stop.hurried
        while self._in_flight and not hurried.is_set() and time.monotonic() < deadline:
            await self._wait_a_little(deadline)
        for task in list(self._in_flight):
            task.cancel()

    async def _wait_a_little(self, deadline: float) -> None:
        tick = min(0.2, max(0.0, deadline - time.monotonic()))
        try:
            async with asyncio.timeout(tick):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def barrier_held(self, token: str, payload: bytes) -> None:
        """Note that an agent has ended: its slot can be graded without running it again."""
        await self._writer.note_barrier(token, payload, durable=False)

    async def grader_starting(self, token: str) -> None:
        """Note that a workspace may have been seen by a grader."""
        await self._writer.note_grader_started(token, durable=False)


def _drops(keep: Keep, is_good: bool) -> bool:
    return keep == "never" or (keep == "failed" and is_good)
