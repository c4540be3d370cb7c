"""Agents whose grade could not be trusted, by their own doing; and graders that leave none."""

from dataclasses import replace

import pytest

from labrunner.errors import GraderFailed
from labrunner.files.strangers.hostile import Refusal
from labrunner.policy.call_blame import CallBlame
from labrunner.records.cause import Cause
from labrunner.records.completion import Failed, Graded, PhaseFact
from labrunner.records.encoding.ids import Ids
from labrunner.trial.classification import AgentFacts, end_before_grading
from labrunner.trial.judgement import Identity, judge


def facts(**changes: bool) -> AgentFacts:
    plain = AgentFacts(
        end=PhaseFact(exit_status=0),
        error_cause=None,
        has_result=False,
        has_invalid_result=False,
        requires_result=False,
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # only of those that are true or false


@pytest.mark.parametrize("grade_on_agent_failure", [True, False])
def test_killing_the_wrapper_is_a_fail(grade_on_agent_failure: bool) -> None:
    end = end_before_grading(facts(wrapper_killed=True), grade_on_agent_failure=grade_on_agent_failure)
    assert isinstance(end, Graded)
    assert (end.verdict, end.ended_by, end.flags) == ("fail", "wrapper_killed", ("not_graded",))


def test_changing_the_system_where_that_is_refused_is_a_fail() -> None:
    end = end_before_grading(
        facts(changed_system=True, must_not_change_system=True), grade_on_agent_failure=True
    )
    assert isinstance(end, Graded)
    assert (end.verdict, end.ended_by, end.flags) == ("fail", None, ("not_graded", "system_changed"))


def test_changing_the_system_elsewhere_is_graded() -> None:
    assert end_before_grading(facts(changed_system=True), grade_on_agent_failure=True) is None


def test_who_must_not_change_the_system_and_does_not_is_graded() -> None:
    assert end_before_grading(facts(must_not_change_system=True), grade_on_agent_failure=True) is None


@pytest.mark.parametrize("exit_tells", [True, False])
def test_an_agent_whose_exit_tells_nothing_is_judged_by_its_last_call(exit_tells: bool) -> None:
    blame = CallBlame(cause=Cause.PROVIDER, reason="provider_error", message="its last call failed")
    agent = replace(facts(exit_tells=exit_tells), blame=blame)
    end = end_before_grading(agent, grade_on_agent_failure=True)
    assert (end is None) == exit_tells
    assert exit_tells or (isinstance(end, Failed) and end.cause == Cause.PROVIDER)


def test_a_grader_that_only_prints_is_told_where_to_write() -> None:
    nothing = Refusal(reason="missing", message="out/benchmark_score.json was not written")
    ids = Ids(run_id="r", trial_id="t", variant_id="v", task_id="k", repl_idx=0)
    with pytest.raises(
        GraderFailed, match=r"was not written; .* \$AGENTLAB_BENCHMARK_SCORE_PATH names"
    ) as caught:
        judge(nothing, Identity(ids=ids, schedule_idx=0, attempt=1), pass_at=1.0)
    assert caught.value.reason == "score_missing"


@pytest.mark.parametrize(
    ("status", "flags"), [(127, ("command_not_found",)), (126, ("command_not_found",)), (1, ())]
)
def test_an_agent_whose_command_was_not_there_is_a_fail_with_a_flag(
    status: int, flags: tuple[str, ...]
) -> None:
    lost = replace(facts(), end=PhaseFact(exit_status=status))
    end = end_before_grading(lost, grade_on_agent_failure=False)
    assert isinstance(end, Graded)
    assert end.flags == ("not_graded", *flags)
