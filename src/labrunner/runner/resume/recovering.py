"""Recovering a crashed run: a readable, complete picture of it, made without running anything.

Rules: the crashed run is only read. The report is a run directory of its own: what was finished, committed
or buffered, as it was; what was not, or is damaged, as `cancelled`, with what its attempts left. It can be
looked at and retried, not continued. Marks on trials go along. It is made under a name that listings ignore
and then renamed: whole or not at all. An earlier report is never overwritten silently.
"""

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from labrunner.analysis.sums.tally import Tally
from labrunner.errors import InputError, RunLocked, StoreError
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.files.draft import draft_beside, put_in_place
from labrunner.files.points import reach
from labrunner.records.encoding import canonical
from labrunner.records.encoding.canonical import stamp
from labrunner.records.encoding.ids import make_token
from labrunner.records.rows import SlotRows
from labrunner.records.run import Counts, RunError, RunRecord, ScheduleProgress, StatusRecord
from labrunner.runner.reports.gaps import attempts_left, make_gap, slot_trial_id
from labrunner.runner.reports.postmortem import find_last_sign
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.summaries import basis_of, seal_summary
from labrunner.runner.reuse.carryover import link_tree, rewrite
from labrunner.runner.reuse.history import encode_earlier
from labrunner.runner.sitting.reporting import make_summary
from labrunner.store.buffering.loss import find_loss
from labrunner.store.buffering.transcripts import read_transcripts, rescue_transcripts
from labrunner.store.checking.invalidations import add_invalidations, examine_marks
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.earlier_file import read_earlier_rows
from labrunner.store.reading.listing import RunListing, list_runs
from labrunner.store.reading.run_state import read_state
from labrunner.store.reading.salvage import count_committed, iter_sound
from labrunner.store.reading.survey import survey
from labrunner.store.rows.lock import acquire
from labrunner.store.rows.single_records import read_run, read_status
from labrunner.store.rows.written import open_file
from labrunner.store.writing.create import create_run
from labrunner.store.writing.writer import RunWriter, open_writer

BATCH: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A recovered report."""

    paths: RunPaths
    recovered: int
    """Finished trials in it."""
    owed: int
    """Trials that failed or were never finished: what a retry would run."""
    damaged: int
    """Trials that had been committed and are not sound any more: among those owed."""
    lost: str | None
    """What was finished and is lost with the buffer: among those owed, too."""


def recoverable(runs_dir: Path) -> list[RunListing]:
    """Crashed runs of a directory that nobody has recovered yet, the newest first."""
    runs = list_runs(runs_dir)
    done = {_find_source(run.paths) for run in runs if run.is_report and not run.is_regrade}
    return [run for run in runs if run.state == "crashed" and run.paths.root.resolve() not in done]


def _find_source(report: RunPaths) -> Path | None:
    """The run that a report was made from, where it lies now: beside it, when both were moved."""
    try:
        source = Path(read_run(report).recovered_from or "")
    except StoreError:
        return None
    beside = report.root.with_name(source.name)
    return (source if source.is_dir() else beside).resolve()


async def recover_run(paths: RunPaths, *, output: Path | None = None, overwrite: bool = False) -> Recovered:
    """Write the report of a crashed run beside it, to `output`, or in its place."""
    state = read_state(paths)
    if state == "started":
        raise RunLocked(f"{paths.root.name} is running: there is nothing to recover")
    if state == "success" and verify(paths).is_sound:
        raise InputError(str(paths.root), "ended with success and is sound: there is nothing to recover")
    if output is not None and overwrite:
        raise InputError("--overwrite", "and --output exclude each other")
    record, experiment = read_run(paths), read_experiment(paths)
    if record.recovered_from is not None:
        raise InputError(str(paths.root), "is a recovered report already")
    place = output or (paths.root if overwrite else paths.root.with_name(f"{record.run_id}-recovered"))
    if not overwrite and place.exists():
        raise InputError(
            str(place),
            "exists already, perhaps from an earlier recovery; write to another place with --output",
        )
    with acquire(paths) if overwrite else nullcontext():
        report = _Report(paths, experiment, record, place.name)
        return await _write_report(report, place, replaces=overwrite)


async def _write_report(report: "_Report", place: Path, *, replaces: bool) -> Recovered:
    with draft_beside(place) as drafts:
        reach("recover.begun")
        recovered = await report.write(drafts)
        reach("recover.written")
        put_in_place(recovered.paths.root, place, replaces=replaces)
        reach("recover.done")
    return replace(recovered, paths=RunPaths(place))


class _Report:
    """One recovery under way."""

    def __init__(self, source: RunPaths, experiment: Experiment, record: RunRecord, run_id: str) -> None:
        self._source = source
        self._experiment = experiment
        self._schedule = Schedule.of(experiment)
        self._record = msgspec.structs.replace(
            record, run_id=run_id, recovered_from=str(source.root.resolve())
        )
        self._live = read_transcripts(source.buffer)
        self._marks = examine_marks(source)
        self._tally = Tally.of(experiment, {mark.trial_id: mark.reason for mark in self._marks.rows})
        self._counts = {"pass": 0, "fail": 0, "failed": 0, "cancelled": 0}
        self._damaged = 0
        self._lost = find_loss(source)

    async def write(self, runs_dir: Path) -> Recovered:
        earlier = encode_earlier(read_earlier_rows(self._source, self._record))
        # The schedule follows from the experiment: one that is damaged is made anew.
        with open_file(self._source.tasks) as tasks:
            schedule = self._schedule.lines(self._experiment)
            paths = create_run(runs_dir, self._record, tasks, schedule, earlier)
        self._carry_marks(paths)
        async with open_writer(paths) as writer:
            rows = self._all_rows()
            while batch := await asyncio.to_thread(self._take, rows, paths):
                await self._finish(writer, batch)
            await writer.settle()
            summary = make_summary(self._experiment, self._record.run_id, self._tally, with_intervals=True)
            with survey(paths) as seen:
                sealed = seal_summary(summary, basis_of(seen))
            await writer.write_summary(canonical.encode_line(sealed))
            await writer.write_status(self._status(writer))
        good = self._counts["pass"] + self._counts["fail"]
        owed = self._counts["failed"] + self._counts["cancelled"]
        return Recovered(
            paths=paths,
            recovered=good + self._counts["failed"],
            owed=owed,
            damaged=self._damaged,
            lost=self._lost,
        )

    def _carry_marks(self, paths: RunPaths) -> None:
        """A trial that is not to be used is not to be used in the report either."""
        if self._marks.rows:
            add_invalidations(paths, self._marks.rows)

    async def _finish(self, writer: RunWriter, batch: list[SlotRows]) -> None:
        async with asyncio.TaskGroup() as group:
            for slot in batch:
                group.create_task(writer.finish(slot, token=make_token()))
        for slot in batch:
            self._counts[slot.trial.verdict or slot.trial.outcome] += 1
            self._tally.add(slot.trial)

    def _take(self, rows: Iterator[SlotRows], paths: RunPaths) -> list[SlotRows]:
        batch = [slot for _, slot in zip(range(BATCH), rows, strict=False)]
        for slot in batch:
            link_tree(self._source.trial(slot.trial_id), paths.trial(slot.trial_id))
        lost = [slot.trial_id for slot in batch if slot.trial.outcome == "cancelled"]
        cut = [(trial_id, attempt) for trial_id in lost for attempt in self._live.get(trial_id, ())]
        rescue_transcripts(self._live, cut, paths.trial_folders)
        return batch

    def _evidence(self, trial_id: str) -> tuple[str, ...]:
        """Folders of the attempts of a trial that has no result, in the report."""
        live = (str(attempt) for attempt in self._live.get(trial_id, ()))
        return tuple(dict.fromkeys((*attempts_left(self._source.trial(trial_id)), *live)))

    def _all_rows(self) -> Iterator[SlotRows]:
        """Every slot in order: finished ones as they were, gaps as cancelled."""
        expected, committed = 0, count_committed(self._source)
        for rows in iter_sound(self._source):
            for idx in range(expected, rows.schedule_idx):
                self._damaged += idx < committed
                yield self._gap(self._schedule.slot(idx))
            yield rewrite(rows, rows.schedule_idx, self._experiment.digest, self._record.run_id)
            expected = rows.schedule_idx + 1
        for idx in range(expected, len(self._schedule)):
            self._damaged += idx < committed
            yield self._gap(self._schedule.slot(idx))

    def _gap(self, slot: Slot) -> SlotRows:
        trial_id = slot_trial_id(self._experiment, slot)
        return make_gap(self._experiment, slot, self._record.run_id, cut_off=self._evidence(trial_id))

    def _status(self, writer: RunWriter) -> StatusRecord:
        before, now = read_status(self._source), stamp(datetime.now(UTC))
        total = len(self._schedule)
        lost = f"; {self._lost}" if self._lost else ""
        died = f", last sign of life {find_last_sign(self._source)}" if before else ""
        return StatusRecord(
            schema_version="status_v1",
            run_id=self._record.run_id,
            status="error",
            counts=Counts(
                planned=total,
                committed=total,
                buffered=0,
                running=0,
                passed=self._counts["pass"],
                failed=self._counts["fail"],
                errors=self._counts["failed"],
            ),
            schedule_progress=ScheduleProgress(next_schedule_idx=total, total=total),
            error=RunError(message=f"recovered from {self._source.root.name}{died}{lost}"),
            started_at=before.started_at if before else now,
            updated_at=now,
            ended_at=now,
            chain=writer.chain,
        )
