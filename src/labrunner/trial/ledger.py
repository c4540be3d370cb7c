"""What is known about an attempt while it goes on, and the completion that it becomes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from labrunner.files.host import boot_id
from labrunner.files.strangers.masking import Masker
from labrunner.policy.call_blame import CallBlame, find_blame, find_cap
from labrunner.records.barrier import FRESH, BarrierNote
from labrunner.records.cause import Cause
from labrunner.records.completion import (
    AttemptEnd,
    AttemptTiming,
    Completion,
    Failed,
    Graded,
    PhaseFact,
)
from labrunner.records.encoding.canonical import stamp
from labrunner.records.facts.call_usage import prefer_calls
from labrunner.records.facts.model_call import CallCap, CallRow
from labrunner.sandbox.door import AgentRun, PhaseEnd, Survivor
from labrunner.trial import phases
from labrunner.trial.assignment import Assignment, AttemptScene
from labrunner.trial.classification import AgentFacts
from labrunner.trial.collecting.collection import Collected
from labrunner.trial.collecting.redaction import Redactor
from labrunner.trial.collecting.result_file import AgentWord

MOST_TOLD: Final = 16 * 1024
"""Characters of a message or traceback that a row keeps."""

MOST_OF_AN_AGENT: Final = 1000
"""Characters of an agent's own words on its error; all of them are in its `result.json`."""


@dataclass(slots=True, kw_only=True)
class Ledger:
    """One attempt's facts."""

    scene: AttemptScene
    masker: Masker
    is_adopted: bool = False
    """A runner before us began the attempt."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    phases_s: dict[str, float] = field(default_factory=dict)
    usage: dict[str, float | int] = field(default_factory=dict)
    limits: dict[str, float | int | str | bool | None] = field(default_factory=dict)
    setup: PhaseFact | None = None
    agent: PhaseFact | None = None
    grader: PhaseFact | None = None
    grader_tries: int = 0
    barrier: str = "none"
    word: AgentWord = field(default_factory=AgentWord)
    left_nothing: bool = False
    """The agent changed nothing and handed in nothing."""
    masked: dict[str, int] = field(default_factory=dict)
    """Secrets that were masked before anything was collected, by file."""
    dropped: dict[str, str] = field(default_factory=dict)
    has_heard_calls: bool = False
    cap: CallCap | None = None
    """The cap that a call of its models ran into."""
    blame: CallBlame | None = None
    """Whom the calls of its models blame."""
    run: AgentRun = field(default_factory=lambda: AgentRun(setup=None, agent=None))

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Count the seconds spent inside for a phase."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.add_seconds(name, time.monotonic() - started)

    def add_seconds(self, name: str, seconds: float) -> None:
        """Count seconds for a phase."""
        self.phases_s[name] = self.phases_s.get(name, 0.0) + seconds

    def note_run(self, run: AgentRun) -> None:
        """Take in how setup and a command agent ended, and what was seen at the barrier."""
        self.note_barrier(run)
        if run.setup is not None:
            self.setup = make_fact(run.setup)
            self.add_seconds("setup", run.setup.seconds)
        if run.agent is not None:
            self.agent = make_fact(run.agent)
            self.add_seconds("agent", run.agent.seconds)
            self.usage.update(run.agent.usage)

    def note_barrier(self, run: AgentRun) -> None:
        """Take in what was seen at the barrier alone."""
        self.run = run
        self.add_seconds("barrier", run.barrier_s)

    def note_word(self, word: AgentWord) -> None:
        """Take in what the agent says of itself."""
        self.word = word
        self.usage.update(word.usage)

    def note_calls(self, calls: Sequence[CallRow]) -> None:
        """Take in what the gateway recorded: what it counted is preferred to what the agent says."""
        self.has_heard_calls = True
        self.usage = prefer_calls(self.usage, calls)
        self.cap, self.blame = find_cap(calls), find_blame(calls)

    def note_redaction(self, found: Redactor) -> None:
        """Take in what was masked and dropped of a try before this one."""
        self.masked |= found.masked
        self.dropped |= found.dropped

    def note_grader(self, end: PhaseEnd) -> None:
        """Take in how a try of the grader ended."""
        self.grader = make_fact(end)
        self.add_seconds("grader", end.seconds)

    def agent_facts(self, *, has_result: bool, has_invalid_result: bool) -> AgentFacts:
        """How a command agent ended, for the rules that every attempt is judged by."""
        agent, end = self.scene.variant.agent, self.agent or PhaseFact()
        cause = agent.error_exit_codes.get(end.exit_status) if end.exit_status is not None else None
        return AgentFacts(
            end=end,
            has_result=has_result,
            has_invalid_result=has_invalid_result,
            requires_result=agent.require_result,
            error_cause=Cause(cause) if cause is not None else None,
            wrapper_killed=self.run.wrapper_killed,
            changed_system=bool(self.run.system_changes),
            must_not_change_system=phases.must_not_change_system(self.scene.context.experiment),
            cap=self.cap,
            blame=self.blame,
            exit_tells=agent.exit_tells,
        )

    @property
    def has_lost_work(self) -> bool:
        """Whether the agent left work that can't be brought to where it is to be judged."""
        return self.barrier == FRESH and self.run.layer is not None and not self.run.layer.is_there

    def barrier_note(self) -> BarrierNote:
        """What a runner after us must know to grade what the agent left."""
        return BarrierNote(
            agent=self.agent or PhaseFact(),
            setup=self.setup,
            phases_s=self.phases_s,
            usage=dict(self.run.agent.usage) if self.run.agent is not None else {},
            boot_id=boot_id(),
        )

    def complete(self, end: AttemptEnd, kept: Collected) -> Completion:
        """Make the attempt's completion."""
        return msgspec.structs.replace(
            complete(self.scene.assignment, end, self._timing(end, kept)),
            setup=self.setup,
            agent=self.agent,
            grader=self.grader,
            grader_tries=self.grader_tries,
            barrier=self.barrier,
            files=kept.files if isinstance(end, Graded) else (),
        )

    def _timing(self, end: AttemptEnd, kept: Collected) -> AttemptTiming:
        failed, facts = end if isinstance(end, Failed) else None, self.run.facts.items()
        return AttemptTiming(
            attempt=self.scene.assignment.attempt,
            started_at=stamp(self.started_at),
            ended_at=stamp(datetime.now(UTC)),
            host=self.scene.context.host,
            sandbox=self.scene.variant.sandbox.kind,
            node=self.scene.context.node,
            phases_s={name: round(seconds, 6) for name, seconds in self.phases_s.items()},
            limits=self.limits,
            usage=self.usage,
            message=self._told(failed.message) if failed else None,
            traceback=self._told(failed.traceback) if failed and failed.traceback else None,
            logs=kept.logs,
            masked_secrets=kept.masked_secrets + sum(self.masked.values()),
            masked={**self.masked, **kept.masked},
            dropped={**self.dropped, **kept.dropped},
            folders=dict(kept.folders),
            workspace_digest=kept.workspace_digest,
            agent_outcome=self.word.outcome,
            agent_error=self._told(self.word.error)[:MOST_OF_AN_AGENT] if self.word.error else None,
            left_nothing=self.left_nothing,
            barrier={name: self._told(fact) if isinstance(fact, str) else fact for name, fact in facts},
            adopted=self.is_adopted,
        )

    def _told(self, text: str) -> str:
        return self.masker.mask_text(text)[:MOST_TOLD]


def complete(assignment: Assignment, end: AttemptEnd, timing: AttemptTiming) -> Completion:
    """The completion of an attempt of which nothing but its end is known."""
    return Completion(
        token=assignment.token,
        schedule_idx=assignment.slot.schedule_idx,
        trial_id=assignment.trial_id,
        attempt=assignment.attempt,
        end=end,
        timing=timing,
    )


def make_fact(end: PhaseEnd) -> PhaseFact:
    """What is fixed about how a phase ended."""
    return PhaseFact(
        exit_status=end.exit_status,
        timed_out=end.timed_out,
        oom_killed=end.oom_killed,
        over_disk=end.over_disk,
    )


class Tried(Protocol):
    """An attempt, by its marks."""

    @property
    def token(self) -> str:
        """Of its dispatch."""
        ...

    @property
    def trial_id(self) -> str:
        """Whose attempt it is."""
        ...

    @property
    def attempt(self) -> int:
        """Its number."""
        ...


def stand_at_barrier(attempt: Tried, barrier: BarrierNote) -> Survivor:
    """What is left of an attempt whose agent ended like this: no sandbox, and a workspace to be graded."""
    return Survivor(
        token=attempt.token,
        trial_id=attempt.trial_id,
        attempt=attempt.attempt,
        phase="barrier",
        is_alive=False,
        ended=_as_end(barrier.agent, barrier.phases_s.get("agent", 0.0), barrier.usage),
        setup=None
        if barrier.setup is None
        else _as_end(barrier.setup, barrier.phases_s.get("setup", 0.0), {}),
    )


def _as_end(fact: PhaseFact, seconds: float, usage: Mapping[str, float]) -> PhaseEnd:
    return PhaseEnd(
        exit_status=fact.exit_status,
        timed_out=fact.timed_out,
        oom_killed=fact.oom_killed,
        over_disk=fact.over_disk,
        seconds=seconds,
        usage=usage,
    )
