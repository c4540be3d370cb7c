"""`budget` from end to end: what stops, what still ends, what counts, and how a run goes on."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.analysis.summary import read_report
from labrunner.errors import ExitCode
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.run_policy import BreakerPolicy
from labrunner.gateway.recording.calljournal import CALLS
from labrunner.policy.budget import Budget
from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import CallCap, CallTokens
from labrunner.records.rows import TimingRow
from labrunner.runner.resume.continuing import continue_run
from labrunner.runner.sitting.sitting import Live, RunEnd
from labrunner.runner.start import RunOptions
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.sandbox.fake import FakeMaker
from labrunner.store.reading.run_state import iter_finished
from tests.kit.builders import make_policy
from tests.kit.gateway.callrows import make_row
from tests.kit.runner.running import Stage, answer, make_sums

PLANNED = 20
Cost = Callable[[Phase], Mapping[str, float | int]]


def report(phase: Phase, folders: AttemptFolders, usage: Mapping[str, float | int]) -> None:
    env = phase.env
    ids = {name: env[f"AGENTLAB_{name.upper()}"] for name in ("run_id", "trial_id", "variant_id", "task_id")}
    told = {
        "schema_version": "agent_result_v1",
        "ids": {**ids, "repl_idx": int(env["AGENTLAB_REPL_IDX"])},
        "outcome": "success",
        "metrics": dict(usage),
    }
    (folders.out / "result.json").write_text(json.dumps(told))


def costing(cost: Cost, *, fails: Callable[[Phase], bool] = lambda phase: False) -> object:
    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "agent":
            report(phase, folders, cost(phase))
        elif fails(phase):
            return PhaseEnd(exit_status=1)
        return answer(phase, folders)

    return script


def ten_cents(phase: Phase) -> Mapping[str, float | int]:
    del phase
    return {"cost_usd": 0.1, "input_tokens": 60, "output_tokens": 40}


def asked(*, concurrency: int = 1, cost_usd: float | None = None, tokens: int | None = None) -> Experiment:
    experiment = make_sums(tasks=PLANNED, variants=1, replications=1)
    policy = make_policy(
        max_concurrency=concurrency,
        fail_on_error=False,
        retry_on_error=1,
        breaker=BreakerPolicy(after=0, give_up_after_s=None),
        budget=Budget(cost_usd=cost_usd, tokens=tokens),
    )
    return replace(experiment, policy=policy)


def stage(folder: Path, script: object) -> Stage:
    return Stage(folder, script=script)  # type: ignore[arg-type] # made above


def timings(end: RunEnd) -> list[TimingRow]:
    return [rows.timing for rows in iter_finished(end.paths)]


@pytest.mark.parametrize(
    ("limits", "finished"),
    [
        ({"cost_usd": 0.1}, 1),
        ({"cost_usd": 1.0}, 10),
        ({"cost_usd": 1.01}, 11),
        ({"cost_usd": 2.0}, PLANNED),
        ({"cost_usd": 50.0}, PLANNED),
        ({"tokens": 500}, 5),
        ({"tokens": 501}, 6),
        ({"cost_usd": 1.0, "tokens": 300}, 3),
    ],
)
async def test_a_run_ends_when_its_budget_is_used_up(
    tmp_path: Path, limits: dict[str, float], finished: int
) -> None:
    end = await stage(tmp_path, costing(ten_cents)).run(asked(**limits))  # type: ignore[arg-type]
    is_whole = finished == PLANNED
    assert end.status.counts.committed == finished
    assert end.status.status == ("success" if is_whole else "error")
    assert end.exit_code is (ExitCode.SUCCESS if is_whole else ExitCode.RUN_FAILED)
    assert (end.status.error is None) == is_whole


async def test_the_message_says_what_was_spent_and_how_to_go_on(tmp_path: Path) -> None:
    end = await stage(tmp_path, costing(ten_cents)).run(asked(cost_usd=0.25))
    assert end.status.error is not None
    assert end.status.error.message == (
        "the budget of 0.25 USD is used up: 0.3 spent in 3 attempts; "
        "to go on with more: lab continue --set budget.cost_usd=X"
    )


async def test_what_is_in_flight_ends_and_is_committed_whatever_the_grace(tmp_path: Path) -> None:
    """The first of four spends everything; the others take far longer than the grace, and are not cut."""

    def cost(phase: Phase) -> Mapping[str, float | int]:
        return {"cost_usd": 1.0 if phase.env["AGENTLAB_TASK_ID"] == "t0" else 0.001}

    def pause(phase: Phase) -> float:
        return 0.0 if phase.env["AGENTLAB_TASK_ID"] == "t0" else 0.2

    made = stage(tmp_path, costing(cost))
    made.pause, made.grace_s = pause, 0.0
    end = await made.run(asked(concurrency=4, cost_usd=1.0))
    assert end.status.status == "error"
    assert end.status.counts.committed == 4
    assert not list(end.paths.trial_folders.glob("*/*.cut-*"))


async def test_failed_attempts_count_and_a_retry_is_not_started(tmp_path: Path) -> None:
    made = stage(tmp_path, costing(ten_cents, fails=lambda phase: True))
    end = await made.run(asked(cost_usd=0.5))
    # Two trials with two attempts each, and the first attempt of a third one, which stays owed.
    assert end.status.error is not None
    assert "0.5 spent in 5 attempts" in end.status.error.message
    assert end.status.counts.committed == 2
    assert [len(timing.attempts) for timing in timings(end)] == [2, 2]


async def test_an_attempt_that_the_budget_cut_short_stays_owed_and_ends_the_run(tmp_path: Path) -> None:
    """Its second request could have gone over what is left, so the gateway refused it."""
    tokens, cap = CallTokens(input=60, output=40), CallCap(limit="cost", whose="run")

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "agent":
            calls = [make_row(tokens=tokens, cost_usd=0.1)]
            calls += [make_row(end="capped", cap=cap)] if phase.env["AGENTLAB_TASK_ID"] == "t2" else []
            (folders.root / CALLS).write_bytes(b"".join(canonical.encode_line(each) for each in calls))
        return answer(phase, folders)

    end = await stage(tmp_path, script).run(asked(cost_usd=0.35))
    assert end.status.counts.committed == 2
    assert end.status.error is not None
    assert end.status.error.message == (
        "the budget of 0.35 USD is used up: 0.3 spent in 3 attempts, and another request could have gone "
        "over it; to go on with more: lab continue --set budget.cost_usd=X"
    )
    more = await go_on(end, costing(ten_cents), cost_usd="null")
    assert more is not None
    assert (more.status.status, more.status.counts.committed) == ("success", PLANNED)


async def go_on(end: RunEnd, script: object, **limits: str) -> RunEnd | None:
    async def play(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        return script(phase, folders)  # type: ignore[operator, no-any-return] # made above

    async def look_away(live: Live) -> None:
        del live

    options = RunOptions(
        runs_dir=end.paths.root.parent,
        secrets={},
        make=lambda kind: FakeMaker(script=play),
        reread=lambda record, overrides: asked(),
    )
    sets = tuple((f"budget.{name}", value) for name, value in limits.items())
    return await continue_run(end.paths, options, Overrides(sets=sets), look_away)


async def test_a_larger_budget_goes_on_and_counts_what_was_spent_before(tmp_path: Path) -> None:
    script = costing(ten_cents, fails=lambda phase: phase.env["AGENTLAB_ATTEMPT"] == "1")
    first = await stage(tmp_path, script).run(asked(cost_usd=0.5))
    again = await go_on(first, script)
    more = await go_on(first, script, cost_usd="1.1")
    rest = await go_on(first, script, cost_usd="null")
    assert first.status.counts.committed == 2
    assert again is not None
    assert more is not None
    assert rest is not None
    # The same budget: nothing starts, and the same is said again.
    assert (again.status.error, again.status.counts.committed) == (first.status.error, 2)
    # A failed attempt of a trial that is not final counts too: 5 attempts before, 6 more.
    assert more.status.error is not None
    assert "1.1 spent in 11 attempts" in more.status.error.message
    assert more.status.counts.committed == 5
    assert (rest.status.status, rest.status.counts.committed) == ("success", PLANNED)


async def test_where_nobody_reports_a_budget_is_called_useless_early_and_in_the_summary(
    tmp_path: Path,
) -> None:
    heard: list[tuple[int, str]] = []
    lives: list[Live] = []

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        if phase.name == "agent":
            heard.append((len(heard), lives[0].tallies.warning))
        return answer(phase, folders)

    made = Stage(tmp_path, script=script, on_start=lives.append, pause=lambda phase: 0.0)
    end = await made.run(asked(cost_usd=1.0))
    told = "no attempt reports `cost_usd`, so the budget of 1 USD will never stop this run"
    assert [warning for number, warning in heard if number < 3] == ["", "", ""]
    assert heard[-1] == (PLANNED - 1, told)
    assert end.status.status == "success"
    assert told in [str(each) for each in read_report(end.summary).cautions]


async def test_a_variant_that_does_not_report_is_named_in_the_summary(tmp_path: Path) -> None:
    experiment = asked(cost_usd=99.0)
    two = replace(make_sums(tasks=3, variants=2, replications=1), policy=experiment.policy)

    def cost(phase: Phase) -> Mapping[str, float | int]:
        return {"cost_usd": 1} if phase.env["AGENTLAB_VARIANT_ID"] == "v0" else {}

    end = await stage(tmp_path, costing(cost)).run(two)
    told = [str(each) for each in read_report(end.summary).cautions if each.kind == "budget"]
    assert told == ["v1: no attempt reports `cost_usd`, so the budget does not count them"]


async def test_what_agents_report_stands_in_timings_and_in_the_summary_and_in_no_other_row(
    tmp_path: Path,
) -> None:
    end = await stage(tmp_path, costing(ten_cents)).run(asked())
    (attempt,) = timings(end)[0].attempts
    assert attempt.usage["cost_usd"] == 0.1
    assert attempt.usage["tokens"] == 100
    (figures,) = read_report(end.summary).figures
    assert figures.expense["cost_usd"].total == pytest.approx(2.0)
    assert figures.expense["tokens"].total == 2000
    assert b"usage" not in end.paths.trials.read_bytes()
    assert not [each for each in read_report(end.summary).cautions if each.kind == "budget"]
