"""The total classification: every way an agent can end x every way a grader can answer."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from labrunner.records.cause import Cause
from labrunner.records.completion import Failed, Graded
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from tests.kit.builders import make_agent, make_experiment, make_grader, make_task, make_variant
from tests.kit.trial.attempting import Attempt, Step, exits, ok, scores


def writes_symlink(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    (folders.out / "benchmark_score.json").symlink_to("/etc/passwd")
    return PhaseEnd(exit_status=0)


def writes_link_to_good_score(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    (folders.workspace / "mine.json").write_text('{"verdict": "pass"}')
    (folders.out / "benchmark_score.json").symlink_to(folders.workspace / "mine.json")
    return PhaseEnd(exit_status=0)


def writes_fifo(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    os.mkfifo(folders.out / "benchmark_score.json")
    return PhaseEnd(exit_status=0)


def writes_folder(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    (folders.out / "benchmark_score.json").mkdir()
    return PhaseEnd(exit_status=0)


def writes_huge(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    with (folders.out / "benchmark_score.json").open("wb") as file:
        file.write(b'{"verdict": "pass", "ext": {"pad": "')
        file.truncate(100_000_000)
    return PhaseEnd(exit_status=0)


def scores_then_exits(status: int | None, **facts: Any) -> Step:
    def step(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        scores('{"verdict": "pass"}')(phase, folders)
        return PhaseEnd(exit_status=status, **facts)

    return step


WRONG_IDS = json.dumps({"verdict": "pass", "ids": {"trial_id": "another"}})

AGENTS: dict[str, tuple[Step, str | None]] = {
    "exit 0": (exits(0), None),
    "exit 1": (exits(1), None),
    "exit 137": (exits(137), None),
    "timed out": (exits(None, timed_out=True), "timeout"),
    "out of memory": (exits(137, oom_killed=True), "memory"),
    "over its disk": (exits(None, over_disk=True), "disk"),
}

GRADED: dict[str, tuple[Step, str, tuple[str, ...]]] = {
    "verdict pass": (scores('{"verdict": "pass"}'), "pass", ()),
    "pass with a part": (scores('{"verdict": "pass", "score": 0.4}'), "pass", ()),
    "fail on another scale": (scores('{"verdict": "fail", "score": 40}'), "fail", ()),
    "verdict fail": (scores('{"verdict": "fail"}'), "fail", ()),
    "score 1.0": (scores('{"score": 1.0}'), "pass", ()),
    "score 0.7": (scores('{"score": 0.7}'), "fail", ()),
    "verdict missing": (scores('{"verdict": "missing"}'), "fail", ("missing",)),
}

GRADE_ERRORS: dict[str, tuple[Step, str]] = {
    "non-zero": (scores_then_exits(3), "grader_exit"),
    "timed out": (scores_then_exits(None, timed_out=True), "grader_timeout"),
    "out of memory": (scores_then_exits(137, oom_killed=True), "grader_memory"),
    "over its disk": (scores_then_exits(None, over_disk=True), "grader_disk"),
    "no file": (ok, "score_missing"),
    "empty": (scores(""), "score_empty"),
    "blank": (scores(" \n"), "score_empty"),
    "not JSON": (scores("pass"), "score_not_json"),
    "not UTF-8": (scores(b'{"verdict": "\xff"}'), "score_not_json"),
    "NaN": (scores('{"score": NaN}'), "score_not_json"),
    "wrong shape": (scores('["pass"]'), "score_shape"),
    "unknown field": (scores('{"verdict": "pass", "vedict": 1}'), "score_shape"),
    "doubled verdict": (scores('{"verdict": "fail", "verdict": "pass"}'), "score_shape"),
    "doubled name below": (scores('{"score": 1, "metrics": {"a": 1, "\\u0061": 2}}'), "score_shape"),
    "fail with a full score": (scores('{"verdict": "fail", "score": 1}'), "score_contradiction"),
    "missing with a full score": (scores('{"verdict": "missing", "score": 1.0}'), "score_contradiction"),
    "pass with no score": (scores('{"verdict": "pass", "score": 0}'), "score_contradiction"),
    "unknown verdict": (scores('{"verdict": "yes"}'), "score_shape"),
    "score is text": (scores('{"score": "1.0"}'), "score_shape"),
    "score is true": (scores('{"score": true}'), "score_shape"),
    "neither": (scores("{}"), "score_shape"),
    "score beyond floats": (scores('{"score": 1' + "0" * 400 + "}"), "score_shape"),
    "metric beyond floats": (
        scores('{"verdict": "pass", "metrics": {"m": -1' + "0" * 400 + "}}"),
        "score_shape",
    ),
    "a name too long for a row": (
        scores('{"score": 1, "primary_metric_name": "' + "x" * 100_000 + '"}'),
        "score_too_big",
    ),
    "wrong ids": (scores(WRONG_IDS), "score_ids"),
    "wrong attempt": (scores('{"verdict": "pass", "attempt": 2}'), "score_ids"),
    "verdict error": (scores('{"verdict": "error", "error": {"message": "no net"}}'), "grader_says_error"),
    "symlink to a host file": (writes_symlink, "score_not_a_file"),
    "symlink to a good score": (writes_link_to_good_score, "score_not_a_file"),
    "FIFO": (writes_fifo, "score_not_a_file"),
    "folder": (writes_folder, "score_not_a_file"),
    "100 MB": (writes_huge, "score_too_big"),
    "deeply nested": (
        scores('{"verdict": "pass", "ext": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}"),
        "score_not_json",
    ),
    "large ext": (scores(json.dumps({"verdict": "pass", "ext": {"a": "x" * 60_000}})), "score_too_big"),
}


def attempt(tmp_path: Path, agent: Step, grader: Step, **agent_fields: Any) -> Attempt:
    variant = make_variant(agent=make_agent(**agent_fields))
    experiment = make_experiment(variants=(variant,))
    return Attempt(experiment, tmp_path, {"agent": agent, "grader": grader})


@pytest.mark.parametrize("grader", GRADED)
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_valid_score_is_the_verdict_whatever_the_agent_did(
    tmp_path: Path, agent: str, grader: str
) -> None:
    agent_step, ended_by = AGENTS[agent]
    grader_step, verdict, flags = GRADED[grader]

    completion = await attempt(tmp_path, agent_step, grader_step).carry_out()

    assert isinstance(completion.end, Graded), completion.end
    assert (completion.end.verdict, completion.end.flags) == (verdict, flags)
    assert completion.end.ended_by == ended_by


@pytest.mark.parametrize("grader", GRADE_ERRORS)
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_grader_without_a_usable_score_is_a_grade_error(
    tmp_path: Path, agent: str, grader: str
) -> None:
    agent_step, _ = AGENTS[agent]
    grader_step, reason = GRADE_ERRORS[grader]

    completion = await attempt(tmp_path, agent_step, grader_step).carry_out()

    assert isinstance(completion.end, Failed), completion.end
    assert (completion.end.cause, completion.end.reason) == (Cause.GRADE_ERROR, reason)


@pytest.mark.parametrize("grader", [*GRADED, *GRADE_ERRORS])
async def test_an_error_exit_code_is_never_graded(tmp_path: Path, grader: str) -> None:
    step = GRADED[grader][0] if grader in GRADED else GRADE_ERRORS[grader][0]
    run = attempt(tmp_path, exits(75), step)

    completion = await run.carry_out()

    assert isinstance(completion.end, Failed)
    assert (completion.end.cause, completion.end.reason) == (Cause.PROVIDER, "agent_error_exit")
    assert [phase.name for phase in run.phases] == ["agent"]


@pytest.mark.parametrize("agent", [name for name in AGENTS if name != "exit 0"])
async def test_policy_can_fail_an_unsuccessful_agent_without_grading(tmp_path: Path, agent: str) -> None:
    agent_step, ended_by = AGENTS[agent]
    experiment = make_experiment(grade_on_agent_failure=False)
    run = Attempt(experiment, tmp_path, {"agent": agent_step, "grader": scores('{"verdict": "pass"}')})

    completion = await run.carry_out()

    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.end.flags) == ("fail", ("not_graded",))
    assert completion.end.ended_by == ended_by
    assert [phase.name for phase in run.phases] == ["agent"]


@pytest.mark.parametrize("grade", [True, False])
async def test_an_agent_that_wrote_no_required_result_has_not_succeeded(tmp_path: Path, grade: bool) -> None:
    variant = make_variant(agent=make_agent(require_result=True))
    experiment = make_experiment(variants=(variant,), grade_on_agent_failure=grade)
    run = Attempt(experiment, tmp_path, {"grader": scores('{"verdict": "pass"}')})

    completion = await run.carry_out()

    assert isinstance(completion.end, Graded)
    assert completion.end.verdict == ("pass" if grade else "fail")
    assert completion.end.flags == (("no_result",) if grade else ("not_graded", "no_result"))


async def test_pass_at_moves_the_line(tmp_path: Path) -> None:
    task = make_task(grader=make_grader(pass_at=0.7))
    run = Attempt(make_experiment(tasks=(task,)), tmp_path, {"grader": scores('{"score": 0.7}')})

    completion = await run.carry_out()

    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.end.primary_metric_value) == ("pass", 0.7)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (exits(1), "setup_exit"),
        (exits(None, timed_out=True), "setup_timeout"),
        (exits(137, oom_killed=True), "setup_memory"),
        (exits(None, over_disk=True), "setup_disk"),
    ],
)
async def test_a_failed_setup_is_its_own_cause_and_no_agent_starts(
    tmp_path: Path, end: Step, reason: str
) -> None:
    from labrunner.experiment.resolved import Setup

    experiment = make_experiment(variants=(make_variant(setup=Setup(command=("setup",))),))
    run = Attempt(experiment, tmp_path, {"setup": end})

    completion = await run.carry_out()

    assert isinstance(completion.end, Failed)
    assert (completion.end.cause, completion.end.reason) == (Cause.SETUP, reason)
    assert [phase.name for phase in run.phases] == ["setup"]
