"""Whether and when a failed attempt is followed by another."""

from dataclasses import dataclass
from typing import Final

from labrunner.policy.backoff import wait_s
from labrunner.policy.causes import CONSEQUENCES
from labrunner.records.cause import Cause

FIRST_WAIT_S: Final = 2.0
LONGEST_WAIT_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Run the trial again, after a while."""

    wait_s: float


def decide_retry(cause: Cause, *, attempt: int, retry_on_error: int, jitter: float) -> Retry | None:
    """Decide what follows attempt number `attempt`; None means that its failure is final.

    `jitter` is a random number from 0 to 1 that the caller draws: this function has no dice.
    """
    consequence = CONSEQUENCES[cause]
    allowed = retry_on_error if consequence.retried else 0
    if consequence.most_retries is not None:
        allowed = min(allowed, consequence.most_retries)
    if attempt > allowed:
        return None
    if not consequence.backs_off:
        return Retry(wait_s=0.0)
    return Retry(wait_s=wait_s(attempt - 1, first_s=FIRST_WAIT_S, longest_s=LONGEST_WAIT_S, jitter=jitter))
