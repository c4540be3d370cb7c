"""Whole runs on disk, made without running anything: what each trial did is told by a function.

The rows are made by the engine's own publisher and checked by the store's own encoder; only the syncs are
left out, so that a run of 100,000 trials can be made in a few seconds.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from labrunner.experiment import codec
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.records.cause import Cause
from labrunner.records.commit import NO_ROWS, chain_start
from labrunner.records.completion import (
    AttemptEnd,
    AttemptTiming,
    Completion,
    EndedBy,
    Evaluator,
    Failed,
    FileRef,
    Graded,
    PhaseFact,
    Prediction,
)
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.records.facts.invalidation import InvalidationRow
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunStatus, StatusRecord
from labrunner.records.seals import seal
from labrunner.runner.newrun import make_record
from labrunner.runner.sitting.publication import Publisher
from labrunner.store.buffering.buffer import BufferedSlot as Kept
from labrunner.store.buffering.buffer import Changes, open_buffer
from labrunner.store.checking.invalidations import add_invalidations
from labrunner.store.committing.committer import join_lines, make_line
from labrunner.store.layout import RunPaths
from labrunner.store.rows.slot_bytes import encode_payload, encode_slot
from labrunner.store.writing.create import create_run
from labrunner.trial.assignment import Assignment
from tests.kit.builders import make_experiment, make_policy, make_task, make_variant
from tests.kit.store.sample import make_status

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one trial did."""

    value: float | None = 1.0
    """Primary metric; None for a trial that ended without a grade."""
    metric: str = "solved"
    passes: bool | None = None
    errors: tuple[Cause, ...] = ()
    """Causes of the attempts before the last one; of all of them, when there is no value."""
    ended_by: EndedBy | None = None
    flags: tuple[str, ...] = ()
    metrics: Mapping[str, float | int | str | bool | None] = field(default_factory=dict)
    prediction: str | None = None
    agent_s: float = 1.0
    at_s: float | None = None
    """When its last attempt began, after the run's start; by default one trial a second."""
    usage: Mapping[str, float] = field(default_factory=dict)
    logs: tuple[FileRef, ...] = ()
    folders: Mapping[str, str] = field(default_factory=dict)
    """Digests of folders that it kept."""
    node: str | None = None
    """Which node of a cluster carried it out."""


Script = Callable[[Slot], Told | None]
"""What the trial of a slot did; None: it is owed."""


def make_grid(
    *, tasks: int = 4, variants: tuple[str, ...] = ("a", "b"), replications: int = 1, name: str = "grid"
) -> Experiment:
    """An experiment whose tasks are t0, t1, …"""
    return make_experiment(
        name=name,
        tasks=tuple(make_task(f"t{number}") for number in range(tasks)),
        variants=tuple(make_variant(variant) for variant in variants),
        replications=replications,
        policy=make_policy(fail_on_error=False),
    )


def write_run(
    runs_dir: Path,
    experiment: Experiment,
    script: Script,
    *,
    run_id: str = "made",
    status: RunStatus = "success",
) -> RunPaths:
    """Write a run: what lies before the first owed slot is committed, what lies behind it is buffered."""
    schedule = Schedule.of(experiment)
    record = make_record(experiment, run_id=run_id)
    paths = create_run(runs_dir, record, codec.task_lines(experiment), schedule.lines(experiment))
    told = ((slot, script(slot)) for slot in schedule)
    publisher = Publisher(experiment=experiment, run_id=run_id)
    rows = ((slot.schedule_idx, _rows(publisher, slot, each)) for slot, each in told if each is not None)
    chain = chain_start(record.digests.experiment, record.digests.schedule)
    committed, chain, waiting = _commit(paths, run_id, chain, rows)
    _buffer(paths, run_id, waiting)
    _write_status(paths, run_id, status, (len(schedule), committed, len(waiting)), chain)
    return paths


def mark(paths: RunPaths, trial_id: str, schedule_idx: int, reason: str = "x", *, times: int = 1) -> None:
    """Mark a trial as not to be used."""
    row = InvalidationRow(
        schema_version="invalidation_v1",
        trial_id=trial_id,
        schedule_idx=schedule_idx,
        reason=reason,
        who="ann",
        at="2026-01-01T00:00:00Z",
    )
    add_invalidations(paths, [row] * times)


def edit_status(paths: RunPaths, **changes: object) -> None:
    """Let a run's status say something else, as if its owner had written it so."""
    status = msgspec.json.decode(paths.status.read_bytes(), type=StatusRecord)
    paths.status.write_bytes(canonical.encode_line(seal(msgspec.structs.replace(status, **changes))))


def _commit(
    paths: RunPaths, run_id: str, chain: str, rows: Iterator[tuple[int, SlotRows]]
) -> tuple[int, str, list[SlotRows]]:
    ends, committed, waiting = NO_ROWS, 0, []
    with ExitStack() as stack:
        files = {
            path: stack.enter_context(path.open("ab"))
            for path in (paths.predictions, paths.scores, paths.trials, paths.timings, paths.commits)
        }
        for idx, slot_rows in rows:
            if idx != committed:
                waiting.append(slot_rows)
                continue
            slot = encode_slot(run_id, slot_rows)
            line = make_line(run_id, chain, ends, slot)
            files[paths.predictions].write(join_lines(iter(slot.predictions)))
            files[paths.scores].write(join_lines(iter(slot.scores)))
            files[paths.trials].write(slot.trial + b"\n")
            files[paths.timings].write(slot.timing + b"\n")
            files[paths.commits].write(canonical.encode_line(line))
            committed, chain, ends = committed + 1, line.chain, line.ends
    return committed, chain, waiting


def _buffer(paths: RunPaths, run_id: str, waiting: list[SlotRows]) -> None:
    buffer = open_buffer(paths.buffer)
    slots = [encode_slot(run_id, rows) for rows in waiting]
    kept = [
        Kept(
            schedule_idx=rows.schedule_idx,
            attempt=rows.attempt,
            token="t",
            digest=rows.digest,
            payload=encode_payload(rows),
        )
        for rows in slots
    ]
    buffer.write(Changes(completions=kept), synced=False)
    buffer.close()


def _write_status(
    paths: RunPaths, run_id: str, status: RunStatus, counts: tuple[int, int, int], chain: str
) -> None:
    planned, committed, buffered = counts
    record = make_status(
        planned,
        status,
        committed=committed,
        buffered=buffered,
        updated_at=_stamp(planned),
        run_id=run_id,
        chain=chain,
    )
    record = msgspec.structs.replace(record, started_at=_stamp(0), ended_at=_stamp(planned))
    paths.status.write_bytes(canonical.encode_line(seal(record)))


def _rows(publisher: Publisher, slot: Slot, told: Told) -> SlotRows:
    experiment = publisher.experiment
    trial_id = make_trial_id(
        experiment.variants[slot.variant_idx].id, experiment.tasks[slot.task_idx].id, slot.repl_idx
    )
    attempts = len(told.errors) + (told.value is not None)
    assignment = Assignment(slot=slot, trial_id=trial_id, attempt=attempts, token=make_token())
    completions = tuple(_complete(assignment, told, number) for number in range(1, attempts + 1))
    return publisher.rows(assignment, completions)


def _complete(assignment: Assignment, told: Told, number: int) -> Completion:
    end: AttemptEnd
    if number <= len(told.errors):
        end = Failed(cause=told.errors[number - 1], reason="made", message=f"attempt {number} went wrong")
    else:
        end = _grade(told)
    return Completion(
        token=assignment.token,
        schedule_idx=assignment.slot.schedule_idx,
        trial_id=assignment.trial_id,
        attempt=number,
        end=end,
        agent=PhaseFact(exit_status=0),
        grader=PhaseFact(exit_status=0) if isinstance(end, Graded) else None,
        grader_tries=1,
        barrier="pid_namespace",
        timing=_timing(assignment.slot, told, number, end),
    )


def _grade(told: Told) -> Graded:
    assert told.value is not None
    passes = told.value >= 1.0 if told.passes is None else told.passes
    return Graded(
        verdict="pass" if passes else "fail",
        primary_metric_name=told.metric,
        primary_metric_value=told.value,
        evaluator=Evaluator(name="grader"),
        metrics=dict(told.metrics),
        prediction=None if told.prediction is None else Prediction(kind="text", value=told.prediction),
        ended_by=told.ended_by,
        flags=told.flags,
    )


def _timing(slot: Slot, told: Told, number: int, end: AttemptEnd) -> AttemptTiming:
    at_s = slot.schedule_idx if told.at_s is None else told.at_s
    return AttemptTiming(
        attempt=number,
        started_at=_stamp(at_s),
        ended_at=_stamp(at_s + told.agent_s + 0.25),
        host="here",
        sandbox="fake",
        phases_s={"prepare": 0.05, "agent": told.agent_s, "grader": 0.2},
        limits={"cpus": 2.0, "memory_mb": 2048, "pids": 512, "disk_mb": 10240},
        usage=dict(told.usage),
        message=end.message if isinstance(end, Failed) else None,
        logs=told.logs,
        folders=dict(told.folders),
        node=told.node,
    )


def _stamp(seconds: float) -> str:
    moment = START + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
