"""From a trial's attempts to the rows that its commit publishes, and with them to the store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from labrunner.experiment.digests import digest_tried
from labrunner.experiment.resolved import Experiment
from labrunner.records.cause import Cause
from labrunner.records.completion import AttemptFact, Cancelled, Completion, Failed, Graded
from labrunner.records.encoding.ids import Ids
from labrunner.records.rows import (
    Benchmark,
    PredictionRow,
    ScoreRow,
    SlotRows,
    TimingRow,
    TrialRow,
    slot_commit_id,
)
from labrunner.runner.sitting.ended import EndedAttempt
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import BENCHMARK_ADAPTER, Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """Attempts of a trial that came to no end."""

    names: tuple[str, ...] = ()
    """Their folders."""
    usage: Mapping[str, float | int] = field(default_factory=dict)


NOTHING_UNENDED: Final = Unended()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Makes rows for one run."""

    experiment: Experiment
    run_id: str

    def rows(
        self, assignment: Assignment, attempts: tuple[Completion, ...], cut_off: Unended = NOTHING_UNENDED
    ) -> SlotRows:
        """Make the rows of a final slot; `attempts` are all of the trial's, the last one decides."""
        last = attempts[-1]
        commit_id = slot_commit_id(self.experiment.digest, assignment.trial_id, last.attempt)
        ids = self._ids(assignment)
        graded = last.end if isinstance(last.end, Graded) else None
        return SlotRows(
            schedule_idx=assignment.slot.schedule_idx,
            trial_id=assignment.trial_id,
            attempt=last.attempt,
            slot_commit_id=commit_id,
            predictions=self._predictions(last, ids, commit_id),
            scores=(self._score(last, graded, ids, commit_id),) if graded else (),
            trial=self._trial(assignment, attempts, ids, commit_id),
            timing=TimingRow(
                schema_version="trial_timing_v1",
                schedule_idx=assignment.slot.schedule_idx,
                ids=ids,
                attempts=tuple(attempt.timing for attempt in attempts),
                cut_off=cut_off.names,
                cut_off_usage=dict(cut_off.usage),
            ),
        )

    def _ids(self, assignment: Assignment) -> Ids:
        return Ids(
            run_id=self.run_id,
            trial_id=assignment.trial_id,
            variant_id=self.experiment.variants[assignment.slot.variant_idx].id,
            task_id=self.experiment.tasks[assignment.slot.task_idx].id,
            repl_idx=assignment.slot.repl_idx,
        )

    def _benchmark(self) -> Benchmark:
        return Benchmark(adapter_id=BENCHMARK_ADAPTER, name=self.experiment.name, split="all")

    def _predictions(self, last: Completion, ids: Ids, commit_id: str) -> tuple[PredictionRow, ...]:
        if not isinstance(last.end, Graded) or last.end.prediction is None:
            return ()
        row = PredictionRow(
            schema_version="benchmark_prediction_record_v1",
            schedule_idx=last.schedule_idx,
            slot_commit_id=commit_id,
            attempt=last.attempt,
            row_seq=0,
            ids=ids,
            benchmark=self._benchmark(),
            prediction=last.end.prediction,
        )
        return (row,)

    def _score(self, last: Completion, graded: Graded, ids: Ids, commit_id: str) -> ScoreRow:
        return ScoreRow(
            schema_version="benchmark_score_record_v1",
            schedule_idx=last.schedule_idx,
            slot_commit_id=commit_id,
            attempt=last.attempt,
            row_seq=0,
            ids=ids,
            benchmark=self._benchmark(),
            verdict=graded.verdict,
            primary_metric_name=graded.primary_metric_name,
            primary_metric_value=graded.primary_metric_value,
            evaluator=graded.evaluator,
            metrics=graded.metrics,
            artifacts=graded.artifacts,
            ext=graded.ext,
        )

    def _trial(
        self, assignment: Assignment, attempts: tuple[Completion, ...], ids: Ids, commit_id: str
    ) -> TrialRow:
        last, task = attempts[-1], self.experiment.tasks[assignment.slot.task_idx]
        graded = last.end if isinstance(last.end, Graded) else None
        failed = last.end if isinstance(last.end, Failed) else None
        return TrialRow(
            schema_version="trial_record_v1",
            schedule_idx=last.schedule_idx,
            slot_commit_id=commit_id,
            attempt=last.attempt,
            ids=ids,
            task_digest=task.digest,
            variant_digest=digest_tried(self.experiment.variants[assignment.slot.variant_idx], task),
            outcome="graded" if graded else "failed",
            verdict=graded.verdict if graded else None,
            primary_metric_name=graded.primary_metric_name if graded else None,
            primary_metric_value=graded.primary_metric_value if graded else None,
            cause=failed.cause if failed else None,
            reason=failed.reason if failed else None,
            ended_by=graded.ended_by if graded else None,
            flags=graded.flags if graded else (),
            barrier=last.barrier,
            attempts=tuple(attempt_fact(attempt) for attempt in attempts),
            files=last.files,
        )


async def publish(
    ended: EndedAttempt, publisher: Publisher, writer: RunWriter, cut_off: Unended = NOTHING_UNENDED
) -> tuple[SlotRows | None, Failed | None]:
    """Have a slot's rows made durable, and committed in their turn; none where it was final already.

    A row that its own schema refuses is a bug of ours, which is told: one trial's result, not the run's end.
    """
    token = ended.assignment.token
    rows = publisher.rows(ended.assignment, ended.attempts, cut_off)
    try:
        return rows if await writer.finish(rows, token=token) else None, None
    except ValueError as error:
        bug = Failed(cause=Cause.RUNNER, reason="row_refused", message=str(error)[:2000])
    rows = publisher.rows(ended.assignment, _blame(bug, ended.attempts), cut_off)
    return rows if await writer.finish(rows, token=token) else None, bug


def _blame(bug: Failed, attempts: tuple[Completion, ...]) -> tuple[Completion, ...]:
    *before, last = attempts
    timing = msgspec.structs.replace(last.timing, message=bug.message)
    return (*before, msgspec.structs.replace(last, end=bug, files=(), timing=timing))


def attempt_fact(completion: Completion) -> AttemptFact:
    """What is fixed about an attempt, for its trial's row."""
    end = completion.end
    if isinstance(end, Cancelled):
        raise TypeError(f"attempt {completion.attempt} of {completion.trial_id} was cancelled: it has no row")
    return AttemptFact(
        attempt=completion.attempt,
        outcome="graded" if isinstance(end, Graded) else "failed",
        cause=end.cause if isinstance(end, Failed) else None,
        reason=end.reason if isinstance(end, Failed) else None,
        setup=completion.setup,
        agent=completion.agent,
        grader=completion.grader,
        grader_tries=completion.grader_tries,
    )
