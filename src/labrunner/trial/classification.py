"""The total classification: how an agent ended x what its grader said -> exactly one end. Pure.

An agent that fails is a measurement; an attempt with a cause is missing data. The two are never mixed.
"""

import traceback
from dataclasses import dataclass

from labrunner.errors import AttemptFailed
from labrunner.policy.call_blame import CallBlame
from labrunner.records.cause import Cause
from labrunner.records.completion import (
    AttemptEnd,
    Cancelled,
    EndedBy,
    Evaluator,
    Failed,
    Graded,
    PhaseFact,
    Prediction,
)
from labrunner.records.facts.exit_status import KILLED, NO_COMMAND, TIMED_OUT
from labrunner.records.facts.model_call import CallCap
from labrunner.trial.judgement import Judgement
from labrunner.trial.phases import AgentEnding


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """What the classification wants to know of the agent."""

    end: PhaseFact
    has_result: bool
    has_invalid_result: bool
    """It wrote something else in its result's place."""
    requires_result: bool
    error_cause: Cause | None
    """The cause that the agent's `error_exit_codes` name for its exit status, if they name one."""
    wrapper_killed: bool = False
    """It ended the sandbox's own first process, which runs nothing but the attempt."""
    changed_system: bool = False
    """It changed files outside its folders, which a grader may trust."""
    must_not_change_system: bool = False
    cap: CallCap | None = None
    """The first cap that refused a call of its models."""
    blame: CallBlame | None = None
    """Whom the calls of its models blame."""
    exit_tells: bool = True
    """Whether exit status 0 says that it got through."""

    @property
    def succeeded(self) -> bool:
        """Whether the agent did what it was asked, as far as its end tells."""
        return (
            self.end.exit_status == 0
            and self.ended_by is None
            and (self.has_result or not self.requires_result)
        )

    @property
    def ended_by(self) -> EndedBy | None:
        """The limit that it ran into, if it did."""
        if self.wrapper_killed:
            return "wrapper_killed"
        if self.cap is not None and self.cap.whose == "attempt":
            return self.cap.limit
        if self.end.timed_out:
            return "timeout"
        if self.end.oom_killed:
            return "memory"
        return "disk" if self.end.over_disk else None

    @property
    def ending(self) -> AgentEnding:
        """What the grader is told."""
        return tell_ending(self.end)


def tell_ending(end: PhaseFact) -> AgentEnding:
    """What a grader is told of an agent's end."""
    if end.timed_out:
        return AgentEnding(status=str(TIMED_OUT), outcome="timed_out")
    status = KILLED if end.exit_status is None else end.exit_status
    return AgentEnding(status=str(status), outcome="exited")


def setup_failure(setup: PhaseFact) -> Failed | None:
    """The end of an attempt whose setup did not succeed; None when it did."""
    if setup.exit_status == 0 and not (setup.timed_out or setup.oom_killed or setup.over_disk):
        return None
    if setup.timed_out:
        reason, told = "setup_timeout", "ran into its time limit"
    elif setup.oom_killed:
        reason, told = "setup_memory", "ran out of memory"
    elif setup.over_disk:
        reason, told = "setup_disk", "filled its disk"
    else:
        reason, told = "setup_exit", f"ended with exit status {setup.exit_status}"
    return Failed(cause=Cause.SETUP, reason=reason, message=f"the setup command {told}")


def spoilt(failure: AttemptFailed) -> Failed:
    """An attempt that somebody else spoilt, as they said where it happened."""
    return Failed(
        cause=failure.cause, reason=failure.reason, message=str(failure), traceback=failure.traceback
    )


def bug_failure(bug: Exception) -> Failed:
    """The end of an attempt that our own code broke: blamed on ourselves, with its traceback."""
    told = "".join(traceback.format_exception(bug))
    return Failed(cause=Cause.RUNNER, reason="bug", message=repr(bug), traceback=told)


def end_before_grading(agent: AgentFacts, *, grade_on_agent_failure: bool) -> AttemptEnd | None:
    """The end of an attempt that is not to be graded; None when the grader has its turn."""
    if agent.cap is not None and agent.cap.whose == "run" and agent.ended_by is None:
        return Cancelled(reason=f"budget_{agent.cap.limit}")
    if agent.blame is not None and agent.blame.comes_first:
        return Failed(cause=agent.blame.cause, reason=agent.blame.reason, message=agent.blame.message)
    if agent.error_cause is not None and agent.ended_by is None:
        return Failed(
            cause=agent.error_cause,
            reason="agent_error_exit",
            message=f"the agent ended with exit status {agent.end.exit_status}, "
            f"which its error_exit_codes blame on: {agent.error_cause}",
        )
    if (told := _blame_calls(agent)) is not None:
        return told
    if not _is_ungradable(agent) and (agent.succeeded or grade_on_agent_failure):
        return None
    return fail_ungraded(agent.ended_by, *_result_flags(agent))


def _blame_calls(agent: AgentFacts) -> Failed | None:
    """The end of an agent that did not succeed while its provider was down."""
    blame = agent.blame
    if blame is None or agent.ended_by not in (None, "timeout"):
        return None
    if agent.succeeded and agent.exit_tells and not blame.holds_in_any_case:
        return None
    ended = "ran into its time limit" if agent.end.timed_out else f"ended with {_describe_exit(agent)}"
    return Failed(cause=blame.cause, reason=blame.reason, message=f"the agent {ended}; {blame.message}")


def _describe_exit(agent: AgentFacts) -> str:
    told = f"exit status {agent.end.exit_status}"
    return f"{told} and without a result" if agent.requires_result and not agent.has_result else told


def fail_ungraded(ended_by: EndedBy | None, *flags: str) -> Graded:
    """A failure that no grader is asked about."""
    return Graded(
        verdict="fail",
        primary_metric_name="pass",
        primary_metric_value=0.0,
        evaluator=Evaluator(name="labrunner"),
        ended_by=ended_by,
        flags=("not_graded", *flags),
    )


def broken(agent: AgentFacts) -> Graded:
    """The failure of an agent that left a system in which no grader can be run."""
    return fail_ungraded(agent.ended_by, *_result_flags(agent))


def _is_ungradable(agent: AgentFacts) -> bool:
    """Whether a grade could not be trusted, by the agent's own doing: its failure, and no free re-roll."""
    return agent.wrapper_killed or (agent.changed_system and agent.must_not_change_system)


def grader_failure(grader: PhaseFact) -> tuple[str, str] | None:
    """Reason and message when the grader's own end already decides; None when its score file may speak."""
    if grader.timed_out:
        return "grader_timeout", "the grader ran into its time limit"
    if grader.oom_killed:
        return "grader_memory", "the grader ran out of memory"
    if grader.over_disk:
        return "grader_disk", "the grader filled its disk"
    if grader.exit_status != 0:
        return "grader_exit", f"the grader ended with exit status {grader.exit_status}"
    return None


def graded(agent: AgentFacts, judgement: Judgement, prediction: Prediction | None) -> Graded:
    """The end of an attempt whose grader gave a judgement."""
    flags = [*_result_flags(agent)]
    if judgement.is_missing:
        flags.append("missing")
    if agent.has_invalid_result:
        flags.append("invalid_result")
    return Graded(
        verdict=judgement.verdict,
        primary_metric_name=judgement.primary_metric_name,
        primary_metric_value=judgement.primary_metric_value,
        evaluator=judgement.evaluator,
        metrics=judgement.metrics,
        prediction=prediction,
        artifacts=judgement.artifacts,
        ext=judgement.ext,
        ended_by=agent.ended_by,
        flags=tuple(flags),
    )


def _result_flags(agent: AgentFacts) -> tuple[str, ...]:
    found = {
        "no_result": agent.requires_result and not agent.has_result,
        "system_changed": agent.changed_system,
        "command_not_found": agent.end.exit_status in NO_COMMAND,
    }
    return tuple(flag for flag, is_set in found.items() if is_set)
