"""What a sitting tells those who look from outside: its status and its summary, kept fresh."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from labrunner.analysis.summary import summarise
from labrunner.analysis.sums.tally import Tally
from labrunner.experiment.resolved import Experiment
from labrunner.records.encoding import canonical
from labrunner.records.encoding.canonical import stamp
from labrunner.records.rows import Benchmark
from labrunner.records.run import Counts, RunError, RunStatus, ScheduleProgress, StatusRecord
from labrunner.records.seals import seal_summary
from labrunner.records.summary import SummaryRecord
from labrunner.runner.plan import Plan
from labrunner.runner.reports.results import summarise_run
from labrunner.runner.sitting.course import Tallies
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import BENCHMARK_ADAPTER

STATUS_EVERY_S: Final = 1.0
SUMMARY_EVERY: Final = 5
"""The live summary is refreshed with every n-th status."""


class Reporter:
    """Writes the status and the summary of one sitting."""

    def __init__(self, plan: Plan, writer: RunWriter, tallies: Tallies) -> None:
        """Take what is told of; the sitting begins now."""
        self._plan = plan
        self._writer = writer
        self._tallies = tallies
        self._started_at = datetime.now(UTC)
        self.tally = Tally.of(plan.experiment)
        """What the live summary is made of."""

    async def keep_fresh(self) -> None:
        """Refresh status and summary, until cancelled."""
        seen: Counts | None = None
        round_ = 0
        while True:
            await asyncio.sleep(STATUS_EVERY_S)
            counts = self._count()
            if counts == seen:
                continue
            seen, round_ = counts, round_ + 1
            await self.write_status("started", None)
            if round_ % SUMMARY_EVERY == 1:
                summary = make_summary(
                    self._plan.experiment, self._plan.run_id, self.tally, with_intervals=False
                )
                await self._writer.write_summary(canonical.encode_line(seal_summary(summary)))

    async def write_last_summary(self) -> SummaryRecord:
        """Write the summary of everything that is durable."""
        plan = self._plan
        summary = await asyncio.to_thread(summarise_run, plan.experiment, plan.run_id, plan.paths)
        await self._writer.write_summary(canonical.encode_line(summary))
        return summary

    async def write_status(self, status: RunStatus, error: RunError | None) -> StatusRecord:
        """Write how the run stands."""
        now = stamp(datetime.now(UTC))
        is_over = status != "started"
        record = StatusRecord(
            schema_version="status_v1",
            run_id=self._plan.run_id,
            status=status,
            counts=self._count(),
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

    def _count(self) -> Counts:
        tallies, written = self._tallies, self._writer.counts()
        return Counts(
            planned=tallies.planned,
            committed=written.committed,
            buffered=written.buffered,
            running=tallies.running,
            passed=tallies.passed,
            failed=tallies.failed,
            errors=tallies.errors,
        )


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
