"""`fail_on_error` from end to end, at the values where its answer changes."""

from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.errors import ExitCode
from labrunner.experiment.run_policy import BreakerPolicy
from labrunner.runner.sitting.sitting import RunEnd
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.store.reading.run_state import iter_trials
from tests.kit.builders import make_policy
from tests.kit.runner.running import Stage, answer, make_sums

PLANNED = 20


async def run(
    folder: Path,
    *,
    errors: int,
    fail_on_error: bool | float,
    continue_on_fail: bool = False,
    retries: int = 0,
) -> RunEnd:
    """Run 20 trials, one after another, of which the first few have errors, however often they are tried."""
    bad = {f"t{number}" for number in range(errors)}

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "grader" and phase.env["AGENTLAB_TASK_ID"] in bad:
            return PhaseEnd(exit_status=1)
        return answer(phase, folders)

    policy = make_policy(
        max_concurrency=1,
        fail_on_error=fail_on_error,
        continue_on_fail=continue_on_fail,
        retry_on_error=retries,
        breaker=BreakerPolicy(after=0, give_up_after_s=None),
    )
    experiment = make_sums(tasks=PLANNED, variants=1, replications=1)
    return await Stage(folder, script=script).run(replace(experiment, policy=policy))


@pytest.mark.parametrize(
    ("fail_on_error", "errors", "status"),
    [
        (True, 0, "success"),
        (True, 1, "error"),
        (False, PLANNED, "success"),
        (0.1, 2, "success"),
        (0.1, 3, "error"),
        (0.05, 1, "success"),
        (0.05, 2, "error"),
        (0.999, 19, "success"),
        (0.999, 20, "error"),
        (1, 1, "success"),
        (1, 2, "error"),
        (1.0, 1, "success"),
        (5, 5, "success"),
        (5, 6, "error"),
        (PLANNED, PLANNED, "success"),
    ],
)
async def test_a_run_fails_when_strictly_more_trials_have_errors(
    tmp_path: Path, fail_on_error: bool | float, errors: int, status: str
) -> None:
    end = await run(tmp_path, errors=errors, fail_on_error=fail_on_error)
    assert end.status.status == status
    assert end.exit_code == (ExitCode.SUCCESS if status == "success" else ExitCode.RUN_FAILED)
    assert end.status.counts.errors == errors
    # No new trial starts after the one that tipped it.
    assert end.status.counts.committed == (PLANNED if status == "success" else errors)
    assert (end.status.error is None) == (status == "success")


async def test_a_trial_counts_once_whatever_its_attempts(tmp_path: Path) -> None:
    end = await run(tmp_path, errors=2, fail_on_error=2, retries=3)
    assert end.status.status == "success"
    assert [row.attempt for row in iter_trials(end.paths)][:3] == [4, 4, 1]


@pytest.mark.parametrize(("errors", "status"), [(2, "success"), (3, "error")])
async def test_a_run_that_continues_on_fail_runs_everything_and_fails_at_the_end(
    tmp_path: Path, errors: int, status: str
) -> None:
    end = await run(tmp_path, errors=errors, fail_on_error=0.1, continue_on_fail=True)
    assert (end.status.status, end.status.counts.committed) == (status, PLANNED)
