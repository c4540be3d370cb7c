"""What one sitting at a run carries out, and within which bounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.records.facts.earlier import EarlierAttempt
from labrunner.runner.reuse.carryover import CarryOver


def never(schedule_idx: int) -> bool:
    """Nothing is taken over."""
    del schedule_idx
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is carried out, and within which bounds."""

    experiment: Experiment
    schedule: Schedule
    run_id: str
    concurrency: int
    grace_s: float
    carry_over: CarryOver | None = None
    """Results of earlier runs that are taken over beside the trials that run."""
    drains_only: bool = False
    """Take up what an earlier sitting left, start nothing new, and leave the status as it is."""
    keep_sandbox: bool = False
    """Whether sandboxes of trials that did not pass are left for a look."""
    is_reused: Callable[[int], bool] = never
    """Which slots are taken over, so that nobody runs them."""
    earlier: Mapping[int, tuple[EarlierAttempt, ...]] = field(default_factory=dict)
    """What runs before this one of its lineage tried, by slot."""
    is_of_lineage: bool = False
    """Whether there were such runs: what they used counts, also for results that are taken over."""
