"""What is told of an attempt that its node says nothing more of."""

from datetime import UTC, datetime

from labrunner.records.completion import AttemptEnd, AttemptTiming, Completion
from labrunner.records.encoding.canonical import stamp
from labrunner.trial.assignment import Assignment
from labrunner.trial.ledger import complete


def complete_unheard(assignment: Assignment, end: AttemptEnd, node: str | None) -> Completion:
    """An attempt's completion, made where the run lies."""
    now = stamp(datetime.now(UTC))
    timing = AttemptTiming(
        attempt=assignment.attempt,
        started_at=now,
        ended_at=now,
        host="",
        node=node,
        sandbox="none",
        message=getattr(end, "message", None),
        traceback=getattr(end, "traceback", None),
    )
    return complete(assignment, end, timing)
