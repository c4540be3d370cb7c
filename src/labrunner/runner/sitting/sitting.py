"""One sitting at a run: from the moment its files are open to the moment its status says how it ended."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from labrunner.errors import ExitCode, LabError
from labrunner.executor.door import Executor
from labrunner.policy.budget import find_used_up
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunError, RunStatus, StatusRecord
from labrunner.records.summary import SummaryRecord
from labrunner.runner.leftovers.cutoffs import leave_as_evidence, settle_cut_off
from labrunner.runner.leftovers.leavings import find_unreleased
from labrunner.runner.leftovers.recounting import find_finished, recount_spending
from labrunner.runner.leftovers.resumption import Resumption
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.course import Course, Tallies
from labrunner.runner.sitting.loop import RunLoop
from labrunner.runner.sitting.reporting import Reporter
from labrunner.runner.sitting.stopping import GaveUp, Interrupted, StopRequest
from labrunner.store.layout import RunPaths
from labrunner.store.writing.writer import RunWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A run under way, as a display may look at it."""

    plan: Plan
    tallies: Tallies
    writer: RunWriter
    stop: StopRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    paths: RunPaths
    status: StatusRecord
    summary: SummaryRecord
    exit_code: ExitCode
    adopted: int = 0
    """Attempts of earlier sittings that were taken up."""
    is_used_up: bool = False
    """Whether the budget lets nothing more start: trying again would only spend it again."""
    is_interrupted: bool = False
    """Whether somebody asked to stop: then nothing is to follow this run, though it may be complete."""


Watch = Callable[[Live], Awaitable[None]]
"""Looks at a run while it goes on; cancelled when it ends."""


class Sitting:
    """Carries a run out and keeps its status and summary fresh."""

    def __init__(self, plan: Plan, writer: RunWriter, executor: Executor, left: Resumption) -> None:
        """Take an open run; `recount` counts its earlier sittings, `carry_out` starts what is owed."""
        self._plan = plan
        self._writer = writer
        self._executor = executor
        self._left = left
        tallies = Tallies(planned=len(plan.schedule))
        self._reporter = Reporter(plan, writer, tallies)
        self._course = Course(tallies=tallies, on_finished=self._add_to_summary)
        self._loop = RunLoop(plan, executor, writer, self._course, left)

    @property
    def stop(self) -> StopRequest:
        """Where it is asked to stop."""
        return self._course.stop

    @property
    def errors(self) -> int:
        """How many trials have errors."""
        return self._course.tallies.errors

    def is_over_threshold(self) -> bool:
        """Whether more trials have errors than `fail_on_error` tolerates."""
        return self._course.tallies.is_over_threshold(self._plan.experiment.policy)

    async def carry_out(self, watch: Watch) -> RunEnd:
        """Carry out what is owed; whatever happens on the way, the status says how it ended."""
        live = Live(plan=self._plan, tallies=self._course.tallies, writer=self._writer, stop=self.stop)
        await self._reporter.write_status("started", None)
        await leave_as_evidence(self._left.cut_off, self._plan.paths, self._writer)
        await self._release_left()
        try:
            async with asyncio.TaskGroup() as group:
                beside = [
                    group.create_task(self._reporter.keep_fresh()),
                    group.create_task(_watched(watch, live)),
                ]
                carrying = group.create_task(self._carry_over())
                await self._loop.run()
                if self.stop.is_interrupted:  # who gave up by itself still takes over what costs nothing
                    carrying.cancel()
                await asyncio.wait([carrying])
                for task in beside:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise _root(errors) from errors
        return await self._finish()

    async def recount(self) -> None:
        """Count what earlier sittings finished and used: as much reading as the run is long."""
        await asyncio.to_thread(self._recount)

    def _recount(self) -> None:
        settle_cut_off(self._left.cut_off, self._plan.paths)
        recount_spending(self._course.spending, self._plan, self._left)
        for row in find_finished(self._plan.paths, self._writer):
            self._reporter.tally.add(row)
            self._course.tallies.count_verdict(row.verdict)
            if row.outcome == "failed":
                self._course.tallies.count_error(row.cause)

    def _add_to_summary(self, rows: SlotRows) -> None:
        self._reporter.tally.add(rows.trial)

    async def _release_left(self) -> None:
        """Throw away what a runner that died before it could left of finished attempts."""
        if self._writer.opening.is_crash:
            for left in await asyncio.to_thread(find_unreleased, self._plan):
                await self._executor.release(left.assignment, left.drop)

    async def _carry_over(self) -> None:
        if self._plan.carry_over is not None:
            await self._plan.carry_over.carry(self._writer, self._course.count_finished)

    async def _finish(self) -> RunEnd:
        await self._writer.settle()
        status, error, exit_code = self._verdict()
        summary = await self._reporter.write_last_summary()
        record = await self._reporter.write_status(status, error)
        budget = self._plan.experiment.policy.budget
        return RunEnd(
            paths=self._plan.paths,
            status=record,
            summary=summary,
            exit_code=exit_code,
            adopted=len(self._left.adoptions),
            is_used_up=bool(find_used_up(budget, self._course.spending)),
            is_interrupted=self.stop.is_interrupted,
        )

    def _verdict(self) -> tuple[RunStatus, RunError | None, ExitCode]:
        if self._plan.drains_only:
            return "started", None, ExitCode.SUCCESS
        tallies = self._course.tallies
        is_complete = self._writer.counts().committed == tallies.planned
        match self.stop.reason:
            case GaveUp(error=error):
                # Who interrupts a run that is giving up wants nothing to follow it, either.
                is_interrupted = self.stop.is_interrupted
                return "error", error, ExitCode.INTERRUPTED if is_interrupted else ExitCode.RUN_FAILED
            case Interrupted(signal_name=name) if not is_complete:
                return "cancelled", RunError(message=f"stopped by {name}"), ExitCode.INTERRUPTED
            case _ if self.is_over_threshold():
                return "error", tallies.first_error, ExitCode.RUN_FAILED
            case _:
                return "success", None, ExitCode.SUCCESS


async def _watched(watch: Watch, live: Live) -> None:
    await watch(live)


def _root(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to act on: ours if there is one, else the first."""
    ours = errors.subgroup(LabError)
    found: BaseException = ours if ours is not None else errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
