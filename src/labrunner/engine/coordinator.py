"""The coordinator: joins schedule, executor, policy and store for one run.

Rules: it is the one that decides; executors only carry out, the store only keeps. A slot is finished when
the store says that it is durable. Memory grows with what is in flight, never with what is done. Commits
are the store's and in schedule order; completions arrive in any.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from labrunner.engine.gate import Gate, Pause
from labrunner.engine.publication import Publisher
from labrunner.engine.queue import Pending, Work, WorkQueue
from labrunner.engine.stopping import GaveUp, StopRequest
from labrunner.executor.door import Executor, Leavings
from labrunner.experiment.model import Experiment, Keep
from labrunner.experiment.schedule import Schedule
from labrunner.policy.breaker import Ruling
from labrunner.policy.budget import Spending
from labrunner.policy.retry import Retry, decide_retry
from labrunner.policy.threshold import is_over
from labrunner.records.cause import Cause
from labrunner.records.completion import Cancelled, Completion, Failed, Graded
from labrunner.records.ids import make_token, make_trial_id
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunError
from labrunner.store.buffer import Event
from labrunner.store.writer import RunWriter
from labrunner.trial.assignment import Assignment

UNSETTLED_MARGIN: Final = 512
"""How many trials may wait for their commit beyond those that run."""


SANDBOX_ONLY: Final = Leavings(workspace=False, logs=False)
"""What goes of an attempt that was not the last: its files stay as evidence."""


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
    pause: str = ""
    """Why dispatch waits, when it does."""
    warning: str = ""
    """What people must hear while the run goes on."""


def _none_cut_off(trial_id: str) -> tuple[str, ...]:
    del trial_id
    return ()


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
    free_gb: Callable[[], float]
    """How much room the disk has that the run lies on."""
    is_done: Callable[[int], bool]
    """Which slots need not be carried out."""
    histories: Mapping[int, tuple[Completion, ...]] = field(default_factory=dict)
    """Failed attempts of trials under way, from earlier sittings."""
    find_cut_offs: Callable[[str], tuple[str, ...]] = field(default=_none_cut_off)
    """Folders of a trial's attempts that were cut off or that an outage ended."""
    adopted: tuple[Work, ...] = ()
    """Attempts of an earlier sitting that are taken up, before anything new starts."""
    keep_sandbox: bool = False
    """Whether sandboxes of trials that did not pass are left for a look."""
    spending: Spending = field(default_factory=Spending)
    """What attempts of earlier sittings have used; those of this one are added."""


class Coordinator:
    """Carries out one run's owed slots."""

    def __init__(self, job: Job, executor: Executor, writer: RunWriter, tallies: Tallies) -> None:
        """Take the doors; nothing starts before `run`."""
        self._job = job
        self._executor = executor
        self._writer = writer
        self.tallies = tallies
        self._publisher = Publisher(experiment=job.experiment, run_id=job.run_id)
        taken_up = {work.slot.schedule_idx for work in job.adopted}
        self._queue = WorkQueue(
            job.schedule,
            lambda idx: idx in taken_up or job.is_done(idx),
            first=writer.next_idx,
            histories=job.histories,
        )
        self._outliving: set[str] = set()
        self._gate = Gate(job.experiment.policy, job.spending, free_gb=job.free_gb)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._collecting: set[str] = set()
        self._unsettled = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Carry out everything owed, or stop when asked to; everything finished is durable on return."""
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self._wake_on_stop())
            for work in self._job.adopted:
                self._start(group, work)
            await self._dispatch(group)
            await self._drain()
            await self._settle_held()
            watcher.cancel()

    async def _dispatch(self, group: asyncio.TaskGroup) -> None:
        while not self._job.stop.stopped.is_set():
            now = time.monotonic()
            pause = self._gate.check(now) if self._has_place() and self._queue.has_work(now) else None
            self.tallies.pause = pause.why if pause else ""
            if pause is None and self._has_place():
                work = self._queue.take(now)
                if work is not None:
                    self._start(group, work)
                    continue
                if self._is_idle() and not await self._settle_held():
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
        self.tallies.running = len(self._in_flight)
        task.add_done_callback(self._on_settled)

    def _on_settled(self, task: asyncio.Task[None]) -> None:
        self._landed(task)
        self._unsettled -= 1

    def _landed(self, task: asyncio.Task[None]) -> None:
        """An attempt's sandbox is gone: its place is free, and from here on it is not to be cancelled."""
        self._in_flight.discard(task)
        self.tallies.running = len(self._in_flight)
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
        await self._follow(work, assignment, completion)

    async def _note_dispatch(self, assignment: Assignment) -> None:
        await self._writer.note_dispatch(
            assignment.token,
            assignment.slot.schedule_idx,
            assignment.trial_id,
            assignment.attempt,
            durable=assignment.token in self._outliving,
        )

    async def _follow(self, work: Work, assignment: Assignment, completion: Completion) -> None:
        if isinstance(completion.end, Cancelled):
            return
        self._gate.spending.add(completion.timing.usage, is_graded=isinstance(completion.end, Graded))
        self.tallies.warning = self._gate.warn(self.tallies.planned)
        match completion.end:
            case Failed() as failure:
                pending = Pending(work=work, assignment=assignment, completion=completion, failure=failure)
                await self._rule(self._hear_of(pending))
            case _:
                await self._rule(self._gate.breaker.on_grade())
                await self._publish(assignment, (*work.history, completion))

    def _hear_of(self, pending: Pending) -> Ruling[Pending]:
        """Ask the breaker, unless this very error ends the run: then there is nothing to wait for."""
        policy = self._job.experiment.policy
        ends_run = policy.fail_on_error is True and not policy.continue_on_fail
        if ends_run and self._retry_after(pending) is None:
            return Ruling(decide=[pending])
        return self._gate.breaker.on_failure(pending.failure.cause, pending, time.monotonic())

    async def _settle_held(self) -> bool:
        """Nothing more will come: decide what the breaker holds back. Whether there was anything."""
        ruling = self._gate.breaker.let_go()
        await self._rule(ruling)
        return bool(ruling.decide)

    async def _rule(self, ruling: Ruling[Pending]) -> None:
        for pending in ruling.owe:
            afresh = Work(slot=pending.work.slot, history=pending.work.history)
            self._queue.put_back(afresh, ready_at=time.monotonic())
            await self._executor.release(pending.assignment, SANDBOX_ONLY)
        for pending in ruling.decide:
            await self._decide(pending)
        self._changed.set()

    async def _decide(self, pending: Pending) -> None:
        """Retry a failed attempt's trial, or make its failure final."""
        attempts = (*pending.work.history, pending.completion)
        retry = self._retry_after(pending)
        if retry is not None:
            self.tallies.retries += 1
            await self._writer.note_failed(pending.assignment.token, msgspec.json.encode(pending.completion))
            await self._executor.release(pending.assignment, SANDBOX_ONLY)
            again = Work(slot=pending.work.slot, history=attempts)
            self._queue.put_back(again, ready_at=time.monotonic() + retry.wait_s)
            return
        self._count_error(pending.assignment, pending.failure)
        await self._publish(pending.assignment, attempts)

    def _retry_after(self, pending: Pending) -> Retry | None:
        return decide_retry(
            pending.failure.cause,
            attempt=len(pending.work.history) + 1,
            retry_on_error=self._job.experiment.policy.retry_on_error,
            jitter=random.random(),
        )

    async def _publish(self, assignment: Assignment, attempts: tuple[Completion, ...]) -> None:
        cut_offs = self._job.find_cut_offs(assignment.trial_id)
        rows = self._publisher.rows(assignment, attempts, cut_offs)
        try:
            is_taken = await self._writer.finish(rows, token=assignment.token)
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
        rows = self._publisher.rows(
            assignment, (*attempts[:-1], msgspec.structs.replace(last, timing=timing))
        )
        self._count_error(assignment, failure)
        if await self._writer.finish(rows, token=assignment.token):
            self._count_finished(rows)

    def _count_error(self, assignment: Assignment, failure: Failed) -> None:
        self.tallies.errors += 1
        error = RunError(message=failure.message, cause=failure.cause, trial_id=assignment.trial_id)
        if self.tallies.first_error is None:
            self.tallies.first_error = error
        policy = self._job.experiment.policy
        if not policy.continue_on_fail and self.is_over_threshold():
            self._job.stop.ask(GaveUp(error=error))

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
        drop = Leavings(
            workspace=_drops(keep.workspace, is_good),
            logs=_drops(keep.logs, is_good),
            sandbox=is_good or not self._job.keep_sandbox,
        )
        await self._executor.release(assignment, drop)

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


def _drops(keep: Keep, is_good: bool) -> bool:
    return keep == "never" or (keep == "failed" and is_good)
