"""What a coordinator is given to carry out, and what it may ask meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.policy.budget import Spending
from labrunner.records.completion import Completion
from labrunner.records.rows import SlotRows
from labrunner.runner.sitting.queue import Work
from labrunner.runner.sitting.stopping import StopRequest


def _none_cut_off(trial_id: str) -> tuple[str, ...]:
    del trial_id
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The owed slots of one run, and how they are to be carried out."""

    experiment: Experiment
    schedule: Schedule
    run_id: str
    concurrency: int
    grace_s: float
    stop: StopRequest
    on_finished: Callable[[SlotRows], None]
    """Called after a slot has become durable."""
    free_gb: Callable[[], float]
    """How much room the disk has that the run lies on."""
    is_done: Callable[[int], bool]
    """Which slots need not be carried out."""
    histories: Mapping[int, tuple[Completion, ...]] = field(default_factory=dict)
    """Failed attempts of trials under way, from earlier sittings."""
    find_cut_offs: Callable[[str], tuple[str, ...]] = field(default=_none_cut_off)
    """Folders of a trial's attempts that were cut off or that an outage ended."""
    adopted: tuple[Work, ...] = ()
    """Attempts of an earlier sitting that are taken up, before anything new starts."""
    keep_sandbox: bool = False
    """Whether sandboxes of trials that did not pass are left for a look."""
    spending: Spending = field(default_factory=Spending)
    """What attempts of earlier sittings have used; those of this one are added."""
