"""What one sitting at a run carries out, and within which bounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.policy.pace import PACE, RunPace
from labrunner.records.completion import Completion
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.records.facts.earlier import EarlierAttempt
from labrunner.runner.reuse.carryover import CarryOver
from labrunner.sandbox.door import Survivor
from labrunner.store.layout import RunPaths
from labrunner.trial.assignment import Assignment


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
    paths: RunPaths
    """Where the run lies."""
    concurrency: int
    grace_s: float
    has_places_elsewhere: bool = False
    """Whether the executor has places of its own: then `concurrency` is a bound on them, and no more."""
    pace: RunPace = PACE
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

    def assign(self, work: "Work") -> Assignment:
        """Make of work an attempt for an executor, under the token that it has or a new one."""
        variant = self.experiment.variants[work.slot.variant_idx]
        task = self.experiment.tasks[work.slot.task_idx]
        return Assignment(
            token=work.token or make_token(),
            slot=work.slot,
            trial_id=make_trial_id(variant.id, task.id, work.slot.repl_idx),
            attempt=work.attempt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A slot to be carried out, with the attempts that it has behind it."""

    slot: Slot
    history: tuple[Completion, ...] = ()
    token: str | None = None
    """Of an attempt that an earlier sitting began and this one takes up."""
    survivor: Survivor | None = None

    @property
    def attempt(self) -> int:
        """The number of the attempt to come, or to be taken up."""
        return self.history[-1].attempt + 1 if self.history else 1
