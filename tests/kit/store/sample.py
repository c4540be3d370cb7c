"""Runs and rows to test the store with: small, real, and the same for the same arguments."""

from pathlib import Path

import msgspec

from labrunner.records.completion import AttemptFact, AttemptTiming, Evaluator, PhaseFact, Prediction
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import Ids, make_trial_id
from labrunner.records.rows import (
    Benchmark,
    PredictionRow,
    ScoreRow,
    SlotRows,
    TimingRow,
    TrialRow,
    seal_timing,
    slot_commit_id,
)
from labrunner.records.run import (
    Counts,
    Digests,
    Provenance,
    RunRecord,
    RunStatus,
    ScheduleProgress,
    StatusRecord,
)
from labrunner.records.seals import seal
from labrunner.store.layout import RunPaths
from labrunner.store.writing.create import create_run

EXPERIMENT = canonical.digest("experiment")
BENCHMARK = Benchmark(adapter_id="labrunner", name="demo", split="all")


def make_lines(planned: int) -> list[bytes]:
    return [
        canonical.encode_line({"schedule_idx": idx, "trial_id": trial_id_of(idx)}) for idx in range(planned)
    ]


def make_record(planned: int, run_id: str = "run-1", created_at: str = "2026-01-01T00:00:00Z") -> RunRecord:
    return RunRecord(
        schema_version="run_v1",
        run_id=run_id,
        lineage_id=run_id,
        name="demo",
        created_at=created_at,
        tags=(),
        planned=planned,
        digests=Digests(
            experiment=EXPERIMENT,
            schedule=canonical.digest_bytes(*make_lines(planned)),
            tasks=canonical.digest_bytes(b'{"id":"k"}\n'),
        ),
        experiment={"policy": {"keep": {"logs": "always", "workspace": "failed"}}},
        provenance=Provenance(
            user="u",
            host="h",
            boot_id="b",
            platform="linux",
            python="3.11",
            labrunner="0",
            argv=("lab", "run"),
            git=None,
        ),
        env_file=None,
    )


def make_run(folder: Path, planned: int = 6, run_id: str = "run-1") -> RunPaths:
    return create_run(folder, make_record(planned, run_id), [b'{"id":"k"}\n'], make_lines(planned))


def trial_id_of(idx: int) -> str:
    return make_trial_id("baseline", f"task-{idx}", 0)


def make_rows(idx: int, run_id: str = "run-1", note: str = "") -> SlotRows:
    """A final slot. Every third one failed; every other one has a prediction."""
    trial_id, is_failed = trial_id_of(idx), idx % 3 == 2
    ids = Ids(run_id=run_id, trial_id=trial_id, variant_id="baseline", task_id=f"task-{idx}", repl_idx=0)
    commit_id = slot_commit_id(EXPERIMENT, trial_id, 1)
    prediction = PredictionRow(
        schema_version="benchmark_prediction_record_v1",
        schedule_idx=idx,
        slot_commit_id=commit_id,
        attempt=1,
        row_seq=0,
        ids=ids,
        benchmark=BENCHMARK,
        prediction=Prediction(kind="text", value=f"réponse {idx} {note}"),
    )
    score = ScoreRow(
        schema_version="benchmark_score_record_v1",
        schedule_idx=idx,
        slot_commit_id=commit_id,
        attempt=1,
        row_seq=0,
        ids=ids,
        benchmark=BENCHMARK,
        verdict="pass" if idx % 2 else "fail",
        primary_metric_name="score",
        primary_metric_value=idx,  # an int on purpose: it must not come back as a float
        evaluator=Evaluator(name="grader"),
    )
    timing = TimingRow(
        schema_version="trial_timing_v1",
        schedule_idx=idx,
        ids=ids,
        attempts=(
            AttemptTiming(
                attempt=1, started_at="2026-01-01T00:00:00Z", ended_at="x", host="h", sandbox="fake"
            ),
        ),
    )
    return SlotRows(
        schedule_idx=idx,
        trial_id=trial_id,
        attempt=1,
        slot_commit_id=commit_id,
        predictions=(prediction,) if idx % 2 and not is_failed else (),
        scores=() if is_failed else (score,),
        trial=_make_trial(idx, ids, commit_id, is_failed=is_failed),
        timing=msgspec.json.decode(seal_timing(canonical.encode(timing)), type=TimingRow),
    )


def _make_trial(idx: int, ids: Ids, commit_id: str, *, is_failed: bool) -> TrialRow:
    return TrialRow(
        schema_version="trial_record_v1",
        schedule_idx=idx,
        slot_commit_id=commit_id,
        attempt=1,
        ids=ids,
        task_digest=canonical.digest(idx),
        variant_digest=canonical.digest("baseline"),
        outcome="failed" if is_failed else "graded",
        verdict=None if is_failed else ("pass" if idx % 2 else "fail"),
        primary_metric_name=None if is_failed else "score",
        primary_metric_value=None if is_failed else idx,
        cause=None,
        reason="grader_exit" if is_failed else None,
        ended_by=None,
        flags=(),
        barrier="none",
        attempts=(
            AttemptFact(
                attempt=1, outcome="failed" if is_failed else "graded", agent=PhaseFact(exit_status=0)
            ),
        ),
        files=(),
    )


def make_status(
    planned: int,
    status: RunStatus = "started",
    *,
    committed: int = 0,
    buffered: int = 0,
    updated_at: str = "2026-01-01T00:00:01Z",
    run_id: str = "run-1",
    chain: str | None = None,
) -> StatusRecord:
    record = StatusRecord(
        schema_version="status_v1",
        run_id=run_id,
        status=status,
        counts=Counts(
            planned=planned,
            committed=committed,
            buffered=buffered,
            running=0,
            passed=0,
            failed=0,
            errors=0,
        ),
        schedule_progress=ScheduleProgress(next_schedule_idx=committed, total=planned),
        error=None,
        started_at="2026-01-01T00:00:00Z",
        updated_at=updated_at,
        ended_at=None,
        chain=chain,
    )
    return seal(record)


def committed_bytes(paths: RunPaths) -> dict[str, bytes]:
    """What must be the same whatever the order and however often the run was killed."""
    files = (paths.predictions, paths.scores, paths.trials, paths.commits)
    return {path.name: path.read_bytes() for path in files}
