import asyncio
import json
import os
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labrunner.errors import ExitCode, InputError
from labrunner.experiment.run_policy import BreakerPolicy
from labrunner.policy.pace import RunPace
from labrunner.records.rows import SlotRows, TrialRow
from labrunner.runner.reports.lookup import picture
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.unfinished import find_any
from labrunner.runner.sitting.sitting import Live
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.store.buffering.buffer import read_live
from labrunner.store.checking.verification import verify
from labrunner.store.reading.run_state import iter_finished, iter_trials
from tests.kit.builders import make_experiment, make_policy, make_task
from tests.kit.runner.running import Stage, answer, committed_bytes, make_sums, with_concurrency

QUICK = RunPace(first_probe_s=0.02, first_wait_s=0.01, look_at_disk_s=0.01)


async def test_a_run_ends_with_every_trial_graded_and_committed_in_order(tmp_path: Path) -> None:
    end = await Stage(tmp_path).run(make_sums())

    rows = list(iter_trials(end.paths))
    assert end.exit_code is ExitCode.SUCCESS
    assert end.status.status == "success"
    assert [row.schedule_idx for row in rows] == list(range(24))
    assert end.status.counts.committed == 24
    assert end.summary.totals.passed == sum(row.verdict == "pass" for row in rows)
    assert verify(end.paths).problems == ()


@pytest.mark.parametrize("concurrency", [1, 2, 7, 32])
async def test_concurrency_changes_no_committed_byte(tmp_path: Path, concurrency: int) -> None:
    experiment = make_sums(tasks=5, replications=4)
    dice = random.Random(concurrency)
    plain = await Stage(tmp_path / "plain").run(with_concurrency(experiment, 1))
    other = Stage(tmp_path / "other", pause=lambda phase: dice.random() * 0.01)

    end = await other.run(with_concurrency(experiment, concurrency))

    assert committed_bytes(end.paths.root) == committed_bytes(plain.paths.root)
    assert end.status.chain == plain.status.chain


async def test_two_runs_with_the_same_results_have_the_same_digest_whatever_their_ids(tmp_path: Path) -> None:
    first = await Stage(tmp_path, run_id="short").run(make_sums())
    second = await Stage(tmp_path, run_id="a-much-longer-name-for-a-run").run(make_sums())

    assert first.status.chain == second.status.chain


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(6)))
def test_every_order_of_completion_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    experiment = with_concurrency(make_sums(tasks=3, variants=2, replications=1), 6)

    async def play() -> tuple[dict[str, bytes], dict[str, bytes]]:
        folder = tmp_path_factory.mktemp("order")
        turns = Turns(order)
        end = await Stage(folder / "a", pause=turns.pause).run(experiment)
        plain = await Stage(folder / "b").run(with_concurrency(experiment, 1))
        return committed_bytes(end.paths.root), committed_bytes(plain.paths.root)

    disturbed, plain = asyncio.run(play())

    assert disturbed == plain


class Turns:
    """Lets agents end in a given order."""

    def __init__(self, order: list[int]) -> None:
        self._order = order
        self._seen: dict[str, int] = {}

    def pause(self, phase: Phase) -> float:
        if phase.name != "agent":
            return 0.0
        number = self._seen.setdefault(phase.env["AGENTLAB_TRIAL_ID"], len(self._seen))
        return self._order.index(number) * 0.004


async def test_an_error_ends_the_run_by_default_and_keeps_what_was_finished(tmp_path: Path) -> None:
    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "agent" and phase.env["AGENTLAB_TASK_ID"] == "t2":
            return PhaseEnd(exit_status=75)
        return answer(phase, folders)

    experiment = make_experiment(
        tasks=tuple(make_task(f"t{n}") for n in range(5)), policy=make_policy(max_concurrency=1)
    )
    end = await Stage(tmp_path, script=script).run(experiment)

    assert (end.status.status, end.exit_code) == ("error", ExitCode.RUN_FAILED)
    assert end.status.error is not None
    assert end.status.error.cause == "provider"
    assert [row.outcome for row in iter_trials(end.paths)] == ["graded", "graded", "failed"]
    assert end.status.counts.errors == 1


@pytest.mark.parametrize(
    ("fail_on_error", "status"),
    [(False, "success"), (2, "success"), (1, "error"), (0.2, "error"), (0.4, "success")],
)
async def test_the_threshold_decides_over_the_planned_trials(
    tmp_path: Path, fail_on_error: bool | float, status: str
) -> None:
    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        is_bad = phase.env["AGENTLAB_TASK_ID"] in {"t0", "t3"}
        return PhaseEnd(exit_status=75) if is_bad else answer(phase, folders)

    experiment = make_experiment(
        tasks=tuple(make_task(f"t{n}") for n in range(5)),
        policy=make_policy(max_concurrency=1, fail_on_error=fail_on_error, continue_on_fail=True),
    )
    end = await Stage(tmp_path, script=script).run(experiment)

    assert end.status.status == status
    assert end.status.counts.committed == 5
    assert end.status.counts.errors == 2


async def test_a_retried_trial_keeps_every_attempt(tmp_path: Path) -> None:
    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "grader" and phase.env["AGENTLAB_ATTEMPT"] != "3":
            return PhaseEnd(exit_status=9)
        return answer(phase, folders)

    experiment = make_experiment(policy=make_policy(retry_on_error=2))
    end = await Stage(tmp_path, script=script).run(experiment)

    (row,) = iter_trials(end.paths)
    assert end.exit_code is ExitCode.SUCCESS
    assert (row.attempt, row.outcome) == (3, "graded")
    assert [(each.attempt, each.outcome, each.reason) for each in row.attempts] == [
        (1, "failed", "grader_exit"),
        (2, "failed", "grader_exit"),
        (3, "graded", None),
    ]
    assert sorted(path.name for path in end.paths.trial(row.ids.trial_id).iterdir()) == ["1", "2", "3"]


async def test_a_signal_leaves_a_cancelled_run_with_everything_finished_durable(tmp_path: Path) -> None:
    def interrupt_after_first_commits(live: Live) -> None:
        loop = asyncio.get_running_loop()

        def check() -> None:
            if live.writer.counts().committed >= 3:
                os.kill(os.getpid(), signal.SIGINT)
            else:
                loop.call_later(0.005, check)

        check()

    def pause(phase: Phase) -> float:
        return 60.0 if phase.env["AGENTLAB_TASK_ID"] == "t3" else 0.001

    stage = Stage(tmp_path, pause=pause, on_start=interrupt_after_first_commits, grace_s=0.2)
    end = await stage.run(make_sums())

    rows = list(iter_finished(end.paths))
    assert (end.status.status, end.exit_code) == ("cancelled", ExitCode.INTERRUPTED)
    assert 3 <= len(rows) < 24
    assert end.status.counts.committed + end.status.counts.buffered == len(rows)
    assert verify(end.paths).problems == ()


async def test_what_finished_behind_a_gap_is_shown_by_every_reader(tmp_path: Path) -> None:
    def stop_when_buffered(live: Live) -> None:
        loop = asyncio.get_running_loop()

        def check() -> None:
            if live.writer.counts().buffered >= 5:
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                loop.call_later(0.005, check)

        check()

    def pause(phase: Phase) -> float:
        is_first = phase.env["AGENTLAB_TRIAL_ID"].startswith("t0.v0.0-")
        return 60.0 if is_first else 0.0

    end = await Stage(tmp_path, pause=pause, on_start=stop_when_buffered, grace_s=0.0).run(make_sums())

    seen = picture(end.paths)
    assert end.status.counts.committed == 0
    assert end.status.counts.buffered >= 5
    assert seen.summary.totals.trials == end.status.counts.buffered
    found = find_any(end.paths, "t0.v1.0")
    assert isinstance(found, SlotRows)
    assert found.trial.outcome == "graded"


async def test_kept_workspaces_are_those_of_trials_that_did_not_pass(tmp_path: Path) -> None:
    end = await Stage(tmp_path).run(make_sums())

    def workspace(row: TrialRow) -> Path:
        return end.paths.attempt(row.ids.trial_id, row.attempt) / "workspace"

    rows = list(iter_trials(end.paths))
    assert {row.verdict for row in rows} == {"pass", "fail"}
    for row in rows:
        assert workspace(row).exists() is (row.verdict == "fail")


async def test_the_experiment_is_read_back_from_the_run(tmp_path: Path) -> None:
    experiment = make_sums()
    end = await Stage(tmp_path).run(experiment)

    assert read_experiment(end.paths) == experiment


async def test_nothing_is_written_for_a_run_that_cannot_start(tmp_path: Path) -> None:
    experiment = make_experiment(policy=make_policy(min_free_disk_gb=1e9))

    with pytest.raises(InputError, match="min_free_disk_gb"):
        await Stage(tmp_path / "runs").run(experiment)

    assert not (tmp_path / "runs").exists()


async def test_the_summary_on_disk_is_final_and_agrees(tmp_path: Path) -> None:
    end = await Stage(tmp_path).run(make_sums())

    on_disk = json.loads(end.paths.summary.read_text())
    assert on_disk["totals"]["trials"] == 24
    assert on_disk["ext"]["has_intervals"] is True
    passes = sum(is_pass_row(row) for row in iter_trials(end.paths))
    assert on_disk["totals"]["pass"] == passes


def is_pass_row(row: TrialRow) -> bool:
    return row.verdict == "pass"


async def test_an_outage_pauses_the_run_and_spends_nothing(tmp_path: Path) -> None:
    attempts: list[str] = []

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "agent":
            attempts.append(phase.env["AGENTLAB_TRIAL_ID"])
            if 5 <= len(attempts) < 20:
                return PhaseEnd(exit_status=75)
        return answer(phase, folders)

    experiment = make_sums(tasks=20, variants=1, replications=2, concurrency=4)
    policy = make_policy(max_concurrency=4, fail_on_error=0.05, retry_on_error=1)
    end = await Stage(tmp_path, script=script, pace=QUICK).run(replace(experiment, policy=policy))

    assert end.status.status == "success"
    assert end.status.counts.errors == 0
    assert end.status.counts.committed == 40
    assert all(row.attempt <= 2 for row in iter_trials(end.paths))


async def test_attempts_of_an_outage_leave_no_note_that_a_later_runner_could_take_up(
    tmp_path: Path,
) -> None:
    # It would be taken for the attempt that was tried since, in the same folder: another workspace is graded.
    policy = make_policy(fail_on_error=False, breaker=BreakerPolicy(after=3, give_up_after_s=0.1))

    stage = Stage(tmp_path, script=lambda phase, folders: PhaseEnd(exit_status=75), pace=QUICK)
    end = await stage.run(replace(make_sums(), policy=policy))

    assert end.exit_code is ExitCode.RUN_FAILED
    assert read_live(end.paths.buffer)[0] == []


async def test_an_outage_that_takes_too_long_fails_the_run(tmp_path: Path) -> None:
    policy = make_policy(fail_on_error=False, breaker=BreakerPolicy(after=3, give_up_after_s=0.1))

    stage = Stage(tmp_path, script=lambda phase, folders: PhaseEnd(exit_status=75), pace=QUICK)
    end = await stage.run(replace(make_sums(), policy=policy))

    assert (end.status.status, end.exit_code) == ("error", ExitCode.RUN_FAILED)
    assert end.status.error is not None
    assert "kept failing" in end.status.error.message
    assert end.status.counts.committed == 0


async def test_a_full_disk_pauses_dispatch_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([0.5, 0.5, 0.5])
    # Full disks are in tests/crash; here one gets room at the right moment.
    monkeypatch.setattr("labrunner.runner.sitting.gate.free_gb_at", lambda folder: lambda: next(looks, 100.0))

    end = await Stage(tmp_path, pace=QUICK).run(
        replace(make_sums(), policy=make_policy(fail_on_error=False, min_free_disk_gb=1.0))
    )

    assert end.status.status == "success"
    assert next(looks, None) is None


def grade_at_length(folders: AttemptFolders) -> PhaseEnd:
    """A grader whose score is larger than a row may be."""
    metrics = {f"m{n}": "x" * 3000 for n in range(12)}
    score = {"verdict": "pass", "metrics": metrics, "evaluator": {"name": "g", "version": "v" * 40_000}}
    (folders.out / "benchmark_score.json").write_text(json.dumps(score))
    return PhaseEnd(exit_status=0)


async def test_a_row_that_its_schema_refuses_costs_one_trial_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labrunner.trial.judgement.MAX_JUDGEMENT_BYTES", 1 << 20)  # the guard before this one

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "grader" and phase.env["AGENTLAB_TASK_ID"] == "t1":
            return grade_at_length(folders)
        return answer(phase, folders)

    end = await Stage(tmp_path, script=script).run(make_sums(variants=1, replications=1))

    assert end.status.counts.committed == 4
    assert [row.reason for row in iter_trials(end.paths)] == [None, "row_refused", None, None]
    assert verify(end.paths).problems == ()


async def test_a_row_that_its_schema_refuses_still_tells_what_an_outage_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labrunner.trial.judgement.MAX_JUDGEMENT_BYTES", 1 << 20)  # the guard before this one
    agents: list[str] = []

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "agent":
            agents.append(phase.env["AGENTLAB_TASK_ID"])
            if len(agents) <= 3:
                return PhaseEnd(exit_status=75)
        elif phase.env["AGENTLAB_TASK_ID"] == "t1":
            return grade_at_length(folders)
        return answer(phase, folders)

    breaker = BreakerPolicy(after=3, give_up_after_s=None)
    policy = make_policy(max_concurrency=3, fail_on_error=False, breaker=breaker)
    experiment = replace(make_sums(variants=1, replications=1), policy=policy)
    end = await Stage(tmp_path, script=script, pace=QUICK).run(experiment)

    rows = list(iter_finished(end.paths))
    assert [row.trial.reason for row in rows] == [None, "row_refused", None, None]
    assert [len(row.timing.cut_off) for row in rows] == [1, 1, 1, 0]
