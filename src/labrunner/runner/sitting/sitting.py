"""One sitting at a run: from the moment its files are open to the moment its status says how it ended."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

from labrunner.analysis.summary import summarise
from labrunner.analysis.sums.expense import Timing
from labrunner.analysis.sums.tally import Tally, Trial
from labrunner.errors import ExitCode, LabError
from labrunner.executor.door import Executor
from labrunner.experiment.resolved import Experiment
from labrunner.policy.budget import Spending, find_used_up, limits_of
from labrunner.records.encoding import canonical
from labrunner.records.encoding.canonical import stamp
from labrunner.records.rows import Benchmark, SlotRows
from labrunner.records.run import Counts, RunError, RunStatus, ScheduleProgress, StatusRecord
from labrunner.records.seals import seal_summary
from labrunner.records.summary import SummaryRecord
from labrunner.runner.reports.results import summarise_run
from labrunner.runner.sitting.coordinator import Coordinator
from labrunner.runner.sitting.decide import Resumption
from labrunner.runner.sitting.gate import free_gb_at
from labrunner.runner.sitting.job import Job
from labrunner.runner.sitting.leavings import find_unreleased
from labrunner.runner.sitting.look import take_up
from labrunner.runner.sitting.plan import Plan
from labrunner.runner.sitting.stopping import GaveUp, Interrupted, StopRequest
from labrunner.runner.sitting.tallies import Tallies
from labrunner.store.buffering.transcripts import read_transcripts, rescue_transcripts
from labrunner.store.layout import RunPaths
from labrunner.store.reading.survey import survey
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import BENCHMARK_ADAPTER

STATUS_EVERY_S: Final = 1.0
SUMMARY_EVERY: Final = 5
"""The live summary is refreshed with every n-th status."""


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

    def __init__(
        self, plan: Plan, paths: RunPaths, writer: RunWriter, executor: Executor, resumption: Resumption
    ) -> None:
        """Take an open run; nothing starts before `carry_out`."""
        self._plan = plan
        self._paths = paths
        self._writer = writer
        self._executor = executor
        self._started_at = datetime.now(UTC)
        self._tally = new_tally(plan.experiment)
        self.stop = StopRequest()
        self._tallies = Tallies(planned=len(plan.schedule))
        self._recount()
        self._resumption = resumption
        self._spending = recount_spending(plan, paths, resumption)
        job = Job(
            experiment=plan.experiment,
            schedule=plan.schedule,
            run_id=plan.run_id,
            concurrency=plan.concurrency,
            grace_s=plan.grace_s,
            stop=self.stop,
            on_finished=self._note_finished,
            free_gb=free_gb_at(paths.root),
            histories=resumption.histories,
            adopted=tuple(take_up(adoption, plan, resumption) for adoption in resumption.adoptions),
            keep_sandbox=plan.keep_sandbox,
            find_cut_offs=lambda trial_id: find_cut_offs(paths.trial(trial_id)),
            is_done=lambda idx: plan.drains_only or writer.is_finished(idx) or plan.is_reused(idx),
            spending=self._spending,
        )
        self._coordinator = Coordinator(job, executor, writer, self._tallies)

    async def carry_out(self, watch: Watch) -> RunEnd:
        """Carry out what is owed; whatever happens on the way, the status says how it ended."""
        live = Live(plan=self._plan, tallies=self._tallies, writer=self._writer, stop=self.stop)
        await self._write_status("started", None)
        await self._cut_off()
        await self._release_left()
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._report()), group.create_task(_watched(watch, live))]
                carrying = group.create_task(self._carry_over())
                await self._coordinator.run()
                if self.stop.is_interrupted:  # who gave up by itself still takes over what costs nothing
                    carrying.cancel()
                await asyncio.wait([carrying])
                for task in beside:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise _root(errors) from errors
        return await self._finish()

    async def _cut_off(self) -> None:
        """Let go of attempts that nobody can take up; their transcripts stay as evidence."""
        notes = self._resumption.cut_off
        if not notes:
            return
        lost = [(note.trial_id, note.attempt) for note in notes]
        live = await asyncio.to_thread(read_transcripts, self._paths.buffer)
        await asyncio.to_thread(rescue_transcripts, live, lost, self._paths.trial_folders)
        for note in notes:
            await self._writer.note_cut_off(note.token)

    async def _release_left(self) -> None:
        """Throw away what a runner that died before it could left of finished attempts."""
        if self._writer.opening.is_crash:
            for left in await asyncio.to_thread(find_unreleased, self._plan, self._paths):
                await self._executor.release(left.assignment, left.drop)

    async def _carry_over(self) -> None:
        if self._plan.carry_over is not None:
            await self._plan.carry_over.carry(self._writer, self._note_carried)

    def _note_carried(self, rows: SlotRows) -> None:
        self._tallies.count_verdict(rows.trial.verdict)
        self._note_finished(rows)

    @property
    def errors(self) -> int:
        """How many trials have errors."""
        return self._tallies.errors

    def is_over_threshold(self) -> bool:
        """Whether more trials have errors than `fail_on_error` tolerates."""
        return self._tallies.is_over_threshold(self._plan.experiment.policy)

    def _note_finished(self, rows: SlotRows) -> None:
        self._tally.add(rows.trial)

    def _recount(self) -> None:
        """Count what earlier sittings finished."""
        if self._writer.next_idx == 0 and self._writer.counts().buffered == 0:
            return
        with survey(self._paths) as seen:
            for row in seen.trials():
                self._tally.add(row)
                self._tallies.count_verdict(row.verdict)
                if row.outcome == "failed":
                    self._tallies.count_error(row.cause)

    async def _report(self) -> None:
        """Refresh status and summary for whoever looks from outside."""
        seen, round_ = -1, 0
        while True:
            await asyncio.sleep(STATUS_EVERY_S)
            done = self._tallies.passed + self._tallies.failed + self._tallies.errors
            if done == seen:
                continue
            seen, round_ = done, round_ + 1
            await self._write_status("started", None)
            if round_ % SUMMARY_EVERY == 1:
                summary = make_summary(
                    self._plan.experiment, self._plan.run_id, self._tally, with_intervals=False
                )
                await self._writer.write_summary(canonical.encode_line(seal_summary(summary)))

    async def _finish(self) -> RunEnd:
        await self._writer.settle()
        status, error, exit_code = self._verdict()
        summary = await asyncio.to_thread(
            summarise_run, self._plan.experiment, self._plan.run_id, self._paths
        )
        await self._writer.write_summary(canonical.encode_line(summary))
        record = await self._write_status(status, error)
        return RunEnd(
            paths=self._paths,
            status=record,
            summary=summary,
            exit_code=exit_code,
            adopted=len(self._resumption.adoptions),
            is_used_up=bool(find_used_up(self._plan.experiment.policy.budget, self._spending)),
            is_interrupted=self.stop.is_interrupted,
        )

    def _verdict(self) -> tuple[RunStatus, RunError | None, ExitCode]:
        if self._plan.drains_only:
            return "started", None, ExitCode.SUCCESS
        counts = self._writer.counts()
        is_complete = counts.committed == self._tallies.planned
        match self.stop.reason:
            case GaveUp(error=error):
                # Who interrupts a run that is giving up wants nothing to follow it, either.
                is_interrupted = self.stop.is_interrupted
                return "error", error, ExitCode.INTERRUPTED if is_interrupted else ExitCode.RUN_FAILED
            case Interrupted(signal_name=name) if not is_complete:
                return "cancelled", RunError(message=f"stopped by {name}"), ExitCode.INTERRUPTED
            case _ if self.is_over_threshold():
                return "error", self._tallies.first_error, ExitCode.RUN_FAILED
            case _:
                return "success", None, ExitCode.SUCCESS

    async def _write_status(self, status: RunStatus, error: RunError | None) -> StatusRecord:
        counts, now = self._writer.counts(), stamp(datetime.now(UTC))
        is_over = status != "started"
        record = StatusRecord(
            schema_version="status_v1",
            run_id=self._plan.run_id,
            status=status,
            counts=Counts(
                planned=self._tallies.planned,
                committed=counts.committed,
                buffered=counts.buffered,
                running=self._tallies.running,
                passed=self._tallies.passed,
                failed=self._tallies.failed,
                errors=self._tallies.errors,
            ),
            schedule_progress=ScheduleProgress(
                next_schedule_idx=self._writer.next_idx, total=self._tallies.planned
            ),
            error=error,
            started_at=stamp(self._started_at),
            updated_at=now,
            ended_at=now if is_over else None,
            chain=self._writer.chain if is_over else None,
        )
        await self._writer.write_status(record)
        return record


def new_tally(experiment: Experiment) -> Tally:
    """An empty tally that knows the experiment's tasks and their groups."""
    return Tally.of(experiment)


def make_summary(experiment: Experiment, run_id: str, tally: Tally, *, with_intervals: bool) -> SummaryRecord:
    """Make a summary of a tally."""
    each = len(experiment.tasks) * experiment.replications
    return summarise(
        tally,
        run_id=run_id,
        benchmark=Benchmark(adapter_id=BENCHMARK_ADAPTER, name=experiment.name, split="all"),
        planned={variant.id: each for variant in experiment.variants},
        created_at=stamp(datetime.now(UTC)),
        with_intervals=with_intervals,
    )


def find_cut_offs(trial: Path) -> tuple[str, ...]:
    """Folders of attempts that were set aside: by a crash, a stop or an outage."""
    try:
        return tuple(sorted(each.name for each in trial.iterdir() if ".cut-" in each.name))
    except FileNotFoundError:
        return ()


def recount_spending(plan: Plan, paths: RunPaths, resumption: Resumption) -> Spending:
    """What earlier sittings of a run, and earlier runs of its lineage, have used; nothing without a budget.

    Results that are taken over from other lineages cost this one nothing.
    """
    spending = Spending()
    if not limits_of(plan.experiment.policy.budget):
        return spending
    for before in chain.from_iterable(plan.earlier.values()):
        spending.add(before.usage, is_graded=before.outcome == "graded")
    for trial, timing in _find_paid(plan, paths):
        *failed, last = timing.attempts
        for attempt in failed:
            spending.add(attempt.usage, is_graded=False)
        spending.add(last.usage, is_graded=trial.outcome == "graded")
    for attempts in resumption.histories.values():
        for completion in attempts:
            spending.add(completion.timing.usage, is_graded=False)
    return spending


def _find_paid(plan: Plan, paths: RunPaths) -> Iterator[tuple[Trial, Timing]]:
    """Trials whose use counts: those that ran here and, of one's own lineage, those that are taken over."""
    finished: set[int] = set()
    with survey(paths) as seen:
        for trial, timing in seen.finished():
            finished.add(trial.schedule_idx)
            if plan.is_of_lineage or not plan.is_reused(trial.schedule_idx):
                yield trial, timing
    if plan.carry_over is not None and plan.is_of_lineage:
        for rows, _ in plan.carry_over.find_rows(finished.__contains__):
            yield rows.trial, rows.timing


async def _watched(watch: Watch, live: Live) -> None:
    await watch(live)


def _root(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to act on: ours if there is one, else the first."""
    ours = errors.subgroup(LabError)
    found: BaseException = ours if ours is not None else errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
