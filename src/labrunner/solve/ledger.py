"""What is known about an attempt of a Python task while it goes on, and the completion that it becomes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from labrunner.records.cause import Cause
from labrunner.records.completion import (
    AttemptEnd,
    AttemptTiming,
    Completion,
    EndedBy,
    Failed,
    FileRef,
    Graded,
    PhaseFact,
)
from labrunner.sandbox.door import AgentRun, PhaseEnd
from labrunner.solve.limits import Meter
from labrunner.trial import classification, phases
from labrunner.trial.assignment import AttemptScene
from labrunner.trial.attempt import stamp
from labrunner.trial.classification import AgentFacts
from labrunner.trial.collection import Collected
from labrunner.trial.masking import Masker

MOST_TOLD = 16 * 1024
"""Characters of a message or traceback that a row keeps."""


@dataclass(slots=True, kw_only=True)
class Ledger:
    """One attempt's facts."""

    scene: AttemptScene
    meter: Meter
    is_command: bool
    """The agent is a command: how it ended is a measurement."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    phases_s: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float | int | str | bool | None] = field(default_factory=dict)
    setup: PhaseFact | None = None
    agent: PhaseFact | None = None
    grader: PhaseFact | None = None
    grader_tries: int = 0
    barrier: str = "none"
    run: AgentRun = field(default_factory=lambda: AgentRun(setup=None, agent=None))
    ended_by: EndedBy | None = None
    """The limit that the solver ran into."""
    has_folders: bool = False
    reported: dict[str, float | int] = field(default_factory=dict)
    """What a command says that it has used."""

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Count the seconds spent inside for a phase."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.phases_s[name] = self.phases_s.get(name, 0.0) + time.monotonic() - started

    def note_setup(self, end: PhaseEnd | None) -> Failed | None:
        """Take in how the setup ended; the attempt's end, if it failed."""
        self.setup = None if end is None else make_fact(end)
        return None if self.setup is None else classification.setup_failure(self.setup)

    def note_run(self, run: AgentRun) -> None:
        """Take in what was seen at the barrier."""
        self.run = run
        self.phases_s["barrier"] = self.phases_s.get("barrier", 0.0) + run.barrier_s
        if run.agent is not None and self.is_command:
            self.agent = make_fact(run.agent)
            self.ended_by = self.agent_facts().ended_by

    def agent_facts(self) -> AgentFacts:
        """How the agent's part ended, for the rules that every attempt is judged by."""
        agent, end = self.scene.variant.agent, self.agent or PhaseFact(exit_status=0)
        cause = agent.error_exit_codes.get(end.exit_status) if end.exit_status is not None else None
        return AgentFacts(
            end=end,
            has_result=(self.scene.folders.out / "result.json").exists(),
            has_invalid_result=False,
            requires_result=agent.require_result and self.is_command,
            error_cause=Cause(cause) if cause is not None and self.is_command else None,
            wrapper_killed=self.run.wrapper_killed,
            changed_system=bool(self.run.system_changes),
            must_not_change_system=phases.must_not_change_system(self.scene.context.experiment),
        )

    def complete(
        self, end: AttemptEnd, kept: Collected, transcript: FileRef | None, masker: Masker
    ) -> Completion:
        """Make the attempt's completion."""
        assignment = self.scene.assignment
        return Completion(
            token=assignment.token,
            schedule_idx=assignment.slot.schedule_idx,
            trial_id=assignment.trial_id,
            attempt=assignment.attempt,
            end=end,
            setup=self.setup,
            agent=self.agent,
            grader=self.grader,
            grader_tries=self.grader_tries,
            barrier=self.barrier,
            files=kept.files if isinstance(end, Graded) else (),
            timing=self._timing(end, kept, transcript, masker),
        )

    def _timing(
        self, end: AttemptEnd, kept: Collected, transcript: FileRef | None, masker: Masker
    ) -> AttemptTiming:
        def told(text: str | None) -> str | None:
            return None if text is None else mask_text(text, masker)[:MOST_TOLD]

        failed = end if isinstance(end, Failed) else None
        return AttemptTiming(
            attempt=self.scene.assignment.attempt,
            started_at=stamp(self.started_at),
            ended_at=stamp(datetime.now(UTC)),
            host=self.scene.context.host,
            sandbox=self.scene.variant.sandbox.kind,
            phases_s={name: round(seconds, 6) for name, seconds in self.phases_s.items()},
            limits=self.limits | self.meter.limits.given(),
            usage=self._usage(),
            message=told(failed.message) if failed else None,
            traceback=told(failed.traceback) if failed else None,
            logs=(*kept.logs, *([transcript] if transcript else [])),
            masked_secrets=kept.masked_secrets,
            barrier=dict(self.run.facts),
        )

    def _usage(self) -> dict[str, float | int]:
        usage, meter = self.meter.usage, self.meter
        spent: dict[str, float | int] = {"working_s": round(meter.working_s, 6), "requests": meter.requests}
        if meter.requests:
            spent |= {
                "tokens": usage.total_tokens,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
            }
        if usage.cost_usd is not None:
            spent["cost_usd"] = usage.cost_usd
        return spent | {name: spent.get(name, 0) + amount for name, amount in self.reported.items()}


def make_fact(end: PhaseEnd) -> PhaseFact:
    """What is fixed about how a phase ended."""
    return PhaseFact(
        exit_status=end.exit_status,
        timed_out=end.timed_out,
        oom_killed=end.oom_killed,
        over_disk=end.over_disk,
    )


def mask_text(text: str, masker: Masker) -> str:
    """A text without secrets, and without halves of characters."""
    return masker.mask(text.encode(errors="replace"))[0].decode(errors="replace")
