"""Trials under way, for programs."""

from labrunner.runner.reports.unfinished import Unfinished
from labrunner.store.reading.underway import UnderWay


def plain_under_way(each: UnderWay | Unfinished) -> dict[str, object]:
    """What is known of a trial under way, for programs."""
    return {
        "trial_id": each.trial_id,
        "attempt": each.attempt,
        "phase": each.phase,
        "since": each.since,
        "began_at": each.began_at,
        "failed": each.failed,
        **({} if each.node is None else {"node": each.node}),
    }
