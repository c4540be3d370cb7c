"""What is known about an attempt of a Python task while it goes on, beyond what every attempt knows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from labrunner.records.completion import AttemptEnd, Completion, EndedBy, FileRef, PhaseFact
from labrunner.records.facts.call_usage import UNPRICED
from labrunner.solve.models.call_log import CallLog
from labrunner.solve.values.meter import Meter
from labrunner.trial.classification import AgentFacts
from labrunner.trial.collecting.collection import Collected
from labrunner.trial.ledger import Ledger


@dataclass(slots=True, kw_only=True)
class SolveLedger(Ledger):
    """One attempt's facts."""

    meter: Meter
    is_command: bool
    """The agent is a command: how it ended is a measurement."""
    ended_by: EndedBy | None = None
    """The limit that the solver ran into."""
    has_folders: bool = False
    calls: CallLog = field(default_factory=CallLog)

    def solving_facts(self) -> AgentFacts:
        """How the agent's part ended, be it a command or a solver."""
        has_result = (self.scene.folders.out / "result.json").exists()
        facts = self.agent_facts(has_result=has_result, has_invalid_result=False)
        facts = replace(facts, end=self.agent or PhaseFact(exit_status=0))
        return facts if self.is_command else replace(facts, requires_result=False, error_cause=None)

    def close(self, end: AttemptEnd, kept: Collected, logs: Sequence[FileRef]) -> Completion:
        """Add what the meter and the transcript know, and make the attempt's completion."""
        self.limits = self.limits | self.meter.limits.given()
        spent = self._spent()
        self.usage = spent | {name: spent.get(name, 0) + amount for name, amount in self.usage.items()}
        return self.complete(end, replace(kept, logs=(*kept.logs, *logs)))

    def _spent(self) -> dict[str, float | int]:
        meter, (count, replayed) = self.meter, self.calls.sum_replayed()
        paid, usage = meter.requests - count, meter.usage
        spent: dict[str, float | int] = {"working_s": round(meter.working_s, 6), "requests": paid}
        if meter.requests:
            spent |= {
                "tokens": usage.total_tokens - replayed.total_tokens,
                "input_tokens": usage.input_tokens - replayed.input_tokens,
                "output_tokens": usage.output_tokens - replayed.output_tokens,
            }
        if count:
            spent |= {"replayed_requests": count, "replayed_tokens": replayed.total_tokens}
        if replayed.cost_usd is not None:
            spent["replayed_cost_usd"] = replayed.cost_usd
        if usage.cost_usd is not None:
            spent["cost_usd"] = usage.cost_usd - (replayed.cost_usd or 0.0) if paid else 0.0
        unpriced = self.calls.count_unpriced()
        return spent | {UNPRICED: unpriced} if unpriced else spent
