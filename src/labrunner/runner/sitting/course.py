"""How a sitting goes: what was counted and used so far, and who asked it to stop."""

from collections.abc import Callable
from dataclasses import dataclass, field

from labrunner.experiment.run_policy import Policy
from labrunner.policy.budget import Spending
from labrunner.policy.causes import CONSEQUENCES
from labrunner.policy.threshold import is_over
from labrunner.records.cause import Cause
from labrunner.records.completion import Failed
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunError
from labrunner.runner.sitting.stopping import GaveUp, StopRequest


@dataclass(slots=True)
class Tallies:
    """Counts of a run under way, for displays and for the threshold."""

    planned: int
    running: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    counted_errors: int = 0
    """Those that count towards the threshold."""
    first_error: RunError | None = None
    pause: str = ""
    """Why dispatch waits, when it does."""
    warning: str = ""
    """What people must hear while the run goes on."""

    def count_verdict(self, verdict: str | None) -> None:
        """Count a finished trial by its verdict; one that is neither is counted elsewhere, as an error."""
        self.passed += verdict == "pass"
        self.failed += verdict == "fail"

    def count_error(self, cause: Cause | None) -> None:
        """Count a trial that ended without a verdict."""
        self.errors += 1
        self.counted_errors += cause is None or CONSEQUENCES[cause].counted

    def is_over_threshold(self, policy: Policy) -> bool:
        """Whether more trials have errors than `fail_on_error` tolerates."""
        return is_over(policy.fail_on_error, errors=self.counted_errors, planned=self.planned)


def _ignore(rows: SlotRows) -> None:
    del rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What only a sitting knows, while it goes on."""

    tallies: Tallies
    stop: StopRequest = field(default_factory=StopRequest)
    spending: Spending = field(default_factory=Spending)
    """What attempts of earlier sittings have used; those of this one are added."""
    on_finished: Callable[[SlotRows], None] = _ignore
    """Called after a slot has become durable."""

    def count_finished(self, rows: SlotRows) -> None:
        """Count a slot that has become durable; a failure is counted before that, when it is decided."""
        self.tallies.count_verdict(rows.trial.verdict)
        self.on_finished(rows)

    def count_error(self, failure: Failed, trial_id: str, policy: Policy) -> None:
        """Count a failure that is final; one too many ends the run."""
        self.tallies.count_error(failure.cause)
        error = RunError(message=failure.message, cause=failure.cause, trial_id=trial_id)
        if self.tallies.first_error is None:
            self.tallies.first_error = error
        if not policy.continue_on_fail and self.tallies.is_over_threshold(policy):
            self.stop.ask(GaveUp(error=error))
