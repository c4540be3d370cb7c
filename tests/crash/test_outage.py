"""A provider that fails for a while: the run waits, spends nothing, and ends as on a good day."""

import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.policy.pace import RunPace
from labrunner.records.cause import Cause
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials
from labrunner.store.rows.outages import read_outages
from tests.kit.builders import make_policy
from tests.kit.cli.calling import AGENT_SHOUTS, lab, write_experiment
from tests.kit.runner.running import Stage, answer, is_pass, make_sums

EX_TEMPFAIL = 75
OUTAGE_S = 1.0
TRIALS = 200


class Provider:
    """Answers every agent, but for a while after the first calls."""

    def __init__(self, good_calls: int) -> None:
        self._good_calls = good_calls
        self._calls = 0
        self._down_since = 0.0
        self.refused = 0

    def call(self, phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name != "agent":
            return answer(phase, folders)
        self._calls += 1
        if self._calls == self._good_calls:
            self._down_since = time.monotonic()
        if self._down_since and time.monotonic() < self._down_since + OUTAGE_S:
            self.refused += 1
            return PhaseEnd(exit_status=EX_TEMPFAIL)
        return answer(phase, folders)


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_an_outage_costs_its_time_and_nothing_else(concurrency: int, tmp_path: Path) -> None:
    provider = Provider(good_calls=60)
    policy = make_policy(max_concurrency=concurrency, retry_on_error=1, fail_on_error=0.05)
    experiment = replace(make_sums(tasks=50, variants=2, replications=2), policy=policy)
    expected: list[bool] = []

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "grader":
            expected.append(is_pass(phase))
        return provider.call(phase, folders)

    pace = RunPace(first_probe_s=0.1, first_wait_s=0.01)
    end = await Stage(tmp_path, script=script, pace=pace).run(experiment)

    rows = list(iter_trials(end.paths))
    assert provider.refused >= 5 + 2  # enough to open the breaker, then probes
    assert end.status.status == "success", end.status.error
    assert (end.status.counts.committed, end.status.counts.errors) == (TRIALS, 0)
    assert end.summary.totals.passed == sum(expected)
    assert len(expected) == TRIALS
    assert all(row.outcome == "graded" for row in rows)
    # What the breaker held back spent no retry, so nobody has more than the one that is allowed.
    assert all(row.attempt <= 2 for row in rows)
    assert verify(end.paths).problems == ()
    # It is noted when dispatch waited, and that it is over.
    outages = read_outages(end.paths)
    assert {(each.cause, each.end) for each in outages} == {(Cause.PROVIDER, "answered")}
    assert all(each.ended_at is not None and each.began_at < each.ended_at for each in outages)


async def test_an_outage_leaves_no_trace_in_what_is_hashed(tmp_path: Path) -> None:
    policy = make_policy(max_concurrency=1, retry_on_error=1, fail_on_error=0.05)
    experiment = replace(make_sums(tasks=20), policy=policy)
    pace = RunPace(first_probe_s=0.1, first_wait_s=0.01)
    good = await Stage(tmp_path / "good", script=answer, pace=pace).run(experiment)
    bad = await Stage(tmp_path / "bad", script=Provider(good_calls=5).call, pace=pace).run(experiment)
    assert (len(read_outages(good.paths)), len(read_outages(bad.paths))) == (0, 1)
    assert good.status.chain == bad.status.chain


async def test_a_run_that_gives_up_notes_that_its_outage_was_not_over(tmp_path: Path) -> None:
    policy = make_policy(max_concurrency=1, retry_on_error=1, fail_on_error=0.05)
    breaker = replace(policy.breaker, give_up_after_s=0.3)
    experiment = replace(make_sums(tasks=20), policy=replace(policy, breaker=breaker))
    pace = RunPace(first_probe_s=0.1, first_wait_s=0.01)
    end = await Stage(tmp_path, script=Provider(good_calls=5).call, pace=pace).run(experiment)
    assert end.status.status == "error"
    (outage,) = read_outages(end.paths)
    assert (outage.end, outage.ended_at is not None) == ("run_ended", True)


async def test_without_the_breaker_the_same_outage_fails_the_run(tmp_path: Path) -> None:
    provider = Provider(good_calls=60)
    policy = make_policy(max_concurrency=8, retry_on_error=0, fail_on_error=0.05)
    experiment = replace(make_sums(tasks=50, variants=2, replications=2), policy=policy)
    no_breaker = replace(experiment, policy=replace(policy, breaker=replace(policy.breaker, after=0)))

    end = await Stage(tmp_path, script=provider.call).run(no_breaker)

    assert end.status.status == "error"
    assert end.status.counts.errors > 10


@pytest.mark.parametrize(("point", "noted"), [("written", 0), ("renamed", 1), ("done", 1)])
def test_a_run_that_is_killed_while_it_notes_an_outage_goes_on(
    point: str, noted: int, tmp_path: Path
) -> None:
    is_over = tmp_path / "over"
    agent = f"import pathlib, sys\nif not pathlib.Path({str(is_over)!r}).exists(): sys.exit({EX_TEMPFAIL})\n"
    folder = write_experiment(
        tmp_path / "e", agent=agent + AGENT_SHOUTS, extra="breaker: {after: 2}\nfail_on_error: false\n"
    )
    killed = lab("run", "--run-id", "one", cwd=folder, env={"LAB_DIE_AT": f"outages.{point}:1"})
    assert killed.code == -signal.SIGKILL, killed.err
    is_over.touch()
    assert lab("continue", "one", cwd=folder).code == 0
    paths = RunPaths(folder / ".lab/runs/one")
    assert verify(paths).problems == ()
    assert [outage.ended_at for outage in read_outages(paths)] == [None] * noted
