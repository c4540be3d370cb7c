"""Trial rows as a run would commit them, for tests of what reads them."""

from labrunner.records.cause import Cause
from labrunner.records.completion import AttemptFact, EndedBy, PhaseFact
from labrunner.records.encoding.ids import Ids, make_trial_id
from labrunner.records.rows import TrialRow


def graded(
    variant_id: str = "a",
    task_id: str = "t0",
    repl_idx: int = 0,
    *,
    value: float = 1.0,
    metric: str = "solved",
    attempts: int = 1,
    ended_by: EndedBy | None = None,
) -> TrialRow:
    return TrialRow(
        schema_version="trial_record_v1",
        schedule_idx=0,
        slot_commit_id="0" * 32,
        attempt=attempts,
        ids=make_ids(variant_id, task_id, repl_idx),
        task_digest="sha256:" + "0" * 64,
        variant_digest="sha256:" + "0" * 64,
        outcome="graded",
        verdict="pass" if value >= 1 else "fail",
        primary_metric_name=metric,
        primary_metric_value=value,
        cause=None,
        reason=None,
        ended_by=ended_by,
        flags=(),
        barrier="pid_namespace",
        attempts=(
            *(failed_fact(number, Cause.SANDBOX, "launch") for number in range(1, attempts)),
            AttemptFact(
                attempt=attempts,
                outcome="graded",
                agent=PhaseFact(exit_status=0),
                grader=PhaseFact(exit_status=0),
                grader_tries=1,
            ),
        ),
        files=(),
    )


def failed(
    variant_id: str = "a",
    task_id: str = "t0",
    repl_idx: int = 0,
    *,
    cause: Cause = Cause.GRADE_ERROR,
    reason: str = "grader_exit",
) -> TrialRow:
    return TrialRow(
        schema_version="trial_record_v1",
        schedule_idx=0,
        slot_commit_id="0" * 32,
        attempt=1,
        ids=make_ids(variant_id, task_id, repl_idx),
        task_digest="sha256:" + "0" * 64,
        variant_digest="sha256:" + "0" * 64,
        outcome="failed",
        verdict=None,
        primary_metric_name=None,
        primary_metric_value=None,
        cause=cause,
        reason=reason,
        ended_by=None,
        flags=(),
        barrier="pid_namespace",
        attempts=(failed_fact(1, cause, reason),),
        files=(),
    )


def failed_fact(attempt: int, cause: Cause, reason: str) -> AttemptFact:
    return AttemptFact(
        attempt=attempt,
        outcome="failed",
        cause=cause,
        reason=reason,
        agent=PhaseFact(exit_status=0),
        grader=PhaseFact(exit_status=3),
        grader_tries=1,
    )


def make_ids(variant_id: str, task_id: str, repl_idx: int) -> Ids:
    return Ids(
        run_id="run",
        trial_id=make_trial_id(variant_id, task_id, repl_idx),
        variant_id=variant_id,
        task_id=task_id,
        repl_idx=repl_idx,
    )
