"""The loop of a run: take a slot, carry it out, settle it, commit it.

Rules: this is who decides what starts and when the run ends; executors only carry out, `settlement` says what
follows from an attempt's end, the store only keeps. Memory grows with what is in flight, never with what is
done. Attempts end in any order; the store commits their slots in the order of the schedule.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from labrunner.executor.door import Executor, find_places
from labrunner.runner.leftovers.cutoffs import CutOffs, sum_cut_off
from labrunner.runner.leftovers.leavings import SANDBOX_ONLY, choose_leavings
from labrunner.runner.leftovers.resumption import Resumption
from labrunner.runner.plan import Plan, Work
from labrunner.runner.sitting.course import Course
from labrunner.runner.sitting.ended import EndedAttempt
from labrunner.runner.sitting.gate import DispatchGate
from labrunner.runner.sitting.noting import OutageNotes, StoreNotes
from labrunner.runner.sitting.places import Places
from labrunner.runner.sitting.publication import Publisher, Unended, publish
from labrunner.runner.sitting.queue import WorkQueue
from labrunner.runner.sitting.settlement import Conclude, Owe, Settlement, Step, TryAgain
from labrunner.runner.sitting.stopping import GaveUp
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import Assignment

MOST_UNLOOKED: Final = 50_000
"""Objects that may be made between two searches for garbage."""


class RunLoop:
    """Carries out one run's owed slots."""

    def __init__(
        self, plan: Plan, executor: Executor, writer: RunWriter, course: Course, left: Resumption
    ) -> None:
        """Take the doors; nothing starts before `run`."""
        self._plan, self._executor, self._writer, self._course = plan, executor, writer, course
        self._queue = WorkQueue(plan, left, writer.is_finished, first=writer.next_idx)
        self._gate = DispatchGate(plan, course.spending)
        self._places = Places(
            plan.concurrency,
            course.tallies,
            has_budget=self._gate.has_budget,
            own=find_places(executor),
        )
        self._notes = StoreNotes(writer, self._places)
        self._outages = OutageNotes(writer, self._gate.breaker)
        self._settlement = Settlement(plan=plan, course=course, gate=self._gate)
        self._publisher = Publisher(experiment=plan.experiment, run_id=plan.run_id)
        self._cut_offs = CutOffs(plan.paths)

    async def run(self) -> None:
        """Carry out everything owed, or stop when asked to; everything finished is durable on return."""
        stop = self._course.stop
        await self._places.open()
        async with _searching_seldom(self._plan.concurrency), asyncio.TaskGroup() as group:
            waking = group.create_task(self._places.wake_on_stop(stop))
            for work in self._queue.adopted:
                self._start(group, work)
            while (taken := await self._take()) is not None:
                self._start(group, taken)
            await self._places.empty(stop, grace_s=self._plan.grace_s)
            await self._settle(self._settlement.let_go())
            await self._outages.leave()
            waking.cancel()

    async def _take(self) -> Work | None:
        """Take the next slot that may start, once there is a place for it; None ends the run."""
        while not self._course.stop.stopped.is_set():
            now, has_place = time.monotonic(), self._places.has_free
            is_stuck = self._places.are_settled and not self._queue.is_empty
            error = self._gate.find_end(now, is_stuck=is_stuck) or self._places.find_end()
            if error is not None:
                self._course.stop.ask(GaveUp(error=error))
                return None
            pause = self._gate.check(now) if has_place and self._queue.has_work(now) else None
            self._course.tallies.pause = pause.why if pause else self._places.trouble
            if has_place and pause is None:
                if (work := self._queue.take(now)) is not None:
                    return work
                is_idle = self._queue.is_empty and self._places.are_settled
                if is_idle and not await self._settle(self._settlement.let_go()):
                    return None
            due = (pause.until if pause else self._queue.next_due) if has_place else None
            await self._places.wait_for_change(due, self._gate.gives_up_at)
        return None

    def _start(self, group: asyncio.TaskGroup, work: Work) -> None:
        assignment = self._plan.assign(work)
        self._places.take(assignment.token, group.create_task(self._carry_out(work, assignment)))

    async def _carry_out(self, work: Work, assignment: Assignment) -> None:
        """Carry out one attempt, and settle it."""
        self._notes.expect(assignment, outlives_runner=self._executor.outlives_runner(assignment))
        try:
            if work.survivor is None:
                await self._notes.dispatched(assignment)
            completion = await self._executor.carry_out(assignment, self._notes, work.survivor)
        finally:
            self._notes.forget(assignment)
        ended = EndedAttempt(work=work, assignment=assignment, completion=completion)
        await self._settle(self._settlement.follow(ended))

    async def _settle(self, steps: Sequence[Step]) -> bool:
        """Bring slots to their end, or back into the queue; whether there was anything to do."""
        for step in steps:
            ended, slot = step.ended, step.ended.work.slot
            match step:
                case Conclude():
                    await self._commit(ended)
                case TryAgain(wait_s=wait_s):
                    await self._notes.failed(ended)
                    await self._executor.release(ended.assignment, SANDBOX_ONLY)
                    self._queue.put_back(slot, ended.attempts, ready_at=time.monotonic() + wait_s)
                case Owe():
                    # Before its slot is carried out again: notes speak of folders that are then another's.
                    self._cut_offs.expect(ended.assignment.trial_id)
                    await self._notes.cut_off(ended)
                    await self._executor.release(ended.assignment, SANDBOX_ONLY)
                    self._queue.put_back(slot, ended.work.history, ready_at=time.monotonic())
            self._places.changed.set()
        await self._outages.follow()  # last: no slot waits for what is noted for people
        return bool(steps)

    async def _commit(self, ended: EndedAttempt) -> None:
        """Make a slot's rows durable; only then is it counted, and what policy does not keep thrown away."""
        trial_id, policy = ended.assignment.trial_id, self._plan.experiment.policy
        if ended.failure is not None:
            self._course.count_error(ended.failure, trial_id, policy)
        rows, bug = await publish(ended, self._publisher, self._writer, await self._find_cut_off(trial_id))
        if bug is not None and ended.failure is None:
            self._course.count_error(bug, trial_id, policy)
        if rows is not None:
            self._course.count_finished(rows)
            await self._executor.release(ended.assignment, choose_leavings(self._plan, rows.trial.verdict))

    async def _find_cut_off(self, trial_id: str) -> Unended:
        """What a trial has behind it that came to no end, and was paid all the same."""
        names = self._cut_offs.find(trial_id)
        if not names:
            return Unended()
        folders = [self._plan.paths.trial(trial_id) / name for name in names]
        return Unended(names=names, usage=await asyncio.to_thread(sum_cut_off, folders))


@asynccontextmanager
async def _searching_seldom(places: int) -> AsyncIterator[None]:
    """Have Python search for garbage less often, the more is in flight: each search goes through all of it.

    What attempts leave is no garbage of that kind: it goes as soon as nobody holds it.
    """
    usual, *others = gc.get_threshold()
    gc.set_threshold(max(usual, min(MOST_UNLOOKED, 10 * places)), *others)
    try:
        yield
    finally:
        gc.set_threshold(usual, *others)
