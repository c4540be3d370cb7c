"""The coordinator: joins schedule, executor, policy and store for one run.

Rules: it is the one that decides what starts and when the run ends; executors only carry out, the store only
keeps, and `settlement` says what follows from an attempt's end. Memory grows with what is in flight, never
with what is done. Commits are the store's and in schedule order; completions arrive in any.
"""

import asyncio
import time
from typing import Final

from labrunner.executor.door import Executor
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.records.run import RunError
from labrunner.runner.sitting.gate import DispatchGate, Pause
from labrunner.runner.sitting.job import Job
from labrunner.runner.sitting.publication import Publisher
from labrunner.runner.sitting.queue import Work, WorkQueue
from labrunner.runner.sitting.settlement import Settlement
from labrunner.runner.sitting.stopping import GaveUp
from labrunner.runner.sitting.tallies import Tallies
from labrunner.store.buffering.buffer import Event
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import Assignment

UNSETTLED_MARGIN: Final = 512
"""How many trials may wait for their commit beyond those that run."""


class Coordinator:
    """Carries out one run's owed slots."""

    def __init__(self, job: Job, executor: Executor, writer: RunWriter, tallies: Tallies) -> None:
        """Take the doors; nothing starts before `run`."""
        self._job = job
        self._executor = executor
        self._writer = writer
        self._tallies = tallies
        taken_up = {work.slot.schedule_idx for work in job.adopted}
        self._queue = WorkQueue(
            job.schedule,
            lambda idx: idx in taken_up or job.is_done(idx),
            first=writer.next_idx,
            histories=job.histories,
        )
        self._outliving: set[str] = set()
        self._gate = DispatchGate(job.experiment.policy, job.spending, free_gb=job.free_gb)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._collecting: set[str] = set()
        self._unsettled = 0
        self._changed = asyncio.Event()
        self._settlement = Settlement(
            job=job,
            executor=executor,
            writer=writer,
            tallies=tallies,
            publisher=Publisher(experiment=job.experiment, run_id=job.run_id),
            queue=self._queue,
            gate=self._gate,
            changed=self._changed,
        )

    async def run(self) -> None:
        """Carry out everything owed, or stop when asked to; everything finished is durable on return."""
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self._wake_on_stop())
            for work in self._job.adopted:
                self._start(group, work)
            await self._dispatch(group)
            await self._drain()
            await self._settlement.settle_held()
            watcher.cancel()

    async def _dispatch(self, group: asyncio.TaskGroup) -> None:
        while not self._job.stop.stopped.is_set():
            now = time.monotonic()
            pause = self._gate.check(now) if self._has_place() and self._queue.has_work(now) else None
            self._tallies.pause = pause.why if pause else ""
            if pause is None and self._has_place():
                work = self._queue.take(now)
                if work is not None:
                    self._start(group, work)
                    continue
                if self._is_idle() and not await self._settlement.settle_held():
                    return
            self._give_up_on_outage(now)
            self._give_up_on_budget(now)
            await self._wait_for_change(pause)

    def _is_idle(self) -> bool:
        return not self._unsettled and self._queue.next_ready_at is None

    def _has_place(self) -> bool:
        # Under a budget a place is free only when it is known what was used in it.
        taken = len(self._in_flight) + (len(self._collecting) if self._gate.has_budget else 0)
        return (
            taken < self._job.concurrency
            # What waits to be collected would be lost in a crash: not much more of it than of what runs.
            and len(self._collecting) <= self._job.concurrency
            and self._unsettled < self._job.concurrency + UNSETTLED_MARGIN
        )

    def _give_up_on_outage(self, now: float) -> None:
        breaker, limit = self._gate.breaker, self._job.experiment.policy.breaker.give_up_after_s
        if limit is not None and breaker.is_open and breaker.open_for_s(now) >= limit:
            message = f"{breaker.cause} kept failing for {breaker.open_for_s(now):.0f} s"
            self._job.stop.ask(GaveUp(error=RunError(message=message, cause=breaker.cause)))

    def _give_up_on_budget(self, now: float) -> None:
        """End the run when nothing is in flight any more and what is left may not start."""
        is_owed = self._queue.has_work(now) or self._queue.next_ready_at is not None
        if is_owed and not self._unsettled and self._gate.is_used_up:
            self._job.stop.ask(GaveUp(error=RunError(message=self._gate.describe_used_up())))

    async def _wait_for_change(self, pause: Pause | None) -> None:
        """Wait until an attempt ended, a retry or a probe is due, or somebody asked to stop."""
        due = [at for at in (self._queue.next_ready_at, pause.until if pause else None) if at is not None]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
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
        assignment = self._assign(work)
        task = group.create_task(self._settle(work, assignment))
        self._tasks[assignment.token] = task
        self._in_flight.add(task)
        self._tallies.running = len(self._in_flight)
        task.add_done_callback(self._on_settled)

    def _on_settled(self, task: asyncio.Task[None]) -> None:
        self._landed(task)
        self._unsettled -= 1

    def _landed(self, task: asyncio.Task[None]) -> None:
        """An attempt's sandbox is gone: its place is free, and from here on it is not to be cancelled."""
        self._in_flight.discard(task)
        self._tallies.running = len(self._in_flight)
        self._changed.set()

    async def _settle(self, work: Work, assignment: Assignment) -> None:
        """Carry out one attempt and bring its slot to its end, or back into the queue."""
        if self._executor.outlives_runner(assignment):
            self._outliving.add(assignment.token)
        try:
            if work.survivor is None:
                await self._note_dispatch(assignment)
            completion = await self._executor.carry_out(assignment, self, work.survivor)
        finally:
            self._outliving.discard(assignment.token)
            self._collecting.discard(assignment.token)
            self._landed(self._tasks.pop(assignment.token))
        await self._settlement.follow(work, assignment, completion)

    async def _note_dispatch(self, assignment: Assignment) -> None:
        await self._writer.note_dispatch(
            assignment.token,
            assignment.slot.schedule_idx,
            assignment.trial_id,
            assignment.attempt,
            durable=assignment.token in self._outliving,
        )

    def _assign(self, work: Work) -> Assignment:
        experiment, slot = self._job.experiment, work.slot
        variant, task = experiment.variants[slot.variant_idx], experiment.tasks[slot.task_idx]
        return Assignment(
            token=work.token or make_token(),
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
        while self._collecting:
            self._changed.clear()
            await self._changed.wait()

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
        await self._writer.note_barrier(token, payload, durable=token in self._outliving)

    async def grader_starting(self, token: str) -> None:
        """Note that a workspace may have been seen by a grader."""
        await self._writer.note_grader_started(token, durable=token in self._outliving)

    def sandbox_gone(self, token: str) -> None:
        """Let the next attempt start, while this one's files are collected."""
        self._collecting.add(token)
        self._landed(self._tasks[token])

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        """Keep an event of an attempt under way."""
        self._writer.put_event(
            Event(trial_id=assignment.trial_id, attempt=assignment.attempt, seq=seq, json=line)
        )
