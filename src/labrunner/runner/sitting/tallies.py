"""Counts of a run under way."""

from dataclasses import dataclass

from labrunner.experiment.resolved import Policy
from labrunner.policy.causes import CONSEQUENCES
from labrunner.policy.threshold import is_over
from labrunner.records.cause import Cause
from labrunner.records.run import RunError


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
