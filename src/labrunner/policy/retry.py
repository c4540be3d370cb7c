"""Whether and when a failed attempt is followed by another."""

from dataclasses import dataclass

from labrunner.policy.backoff import wait_s
from labrunner.policy.causes import CONSEQUENCES
from labrunner.policy.pace import PACE, RunPace
from labrunner.records.cause import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Run the trial again, after a while."""

    wait_s: float


def decide_retry(
    cause: Cause, *, attempt: int, retry_on_error: int, jitter: float, pace: RunPace = PACE
) -> Retry | None:
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
    first_s, longest_s = pace.first_wait_s, pace.longest_wait_s
    return Retry(wait_s=wait_s(attempt - 1, first_s=first_s, longest_s=longest_s, jitter=jitter))
