"""An attempt that stands at its barrier: its agent has ended, no grader has started, no sandbox is left."""

from collections.abc import Mapping

from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import PhaseFact
from labrunner.sandbox.door import PhaseEnd, Survivor
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.trial.assignment import Assignment


def stand_at_barrier(attempt: AttemptNote | Assignment, barrier: BarrierNote) -> Survivor:
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
