"""How many trials of an experiment run at once."""

from labrunner.executor.headcount import count_places
from labrunner.experiment.resolved import Experiment


def concurrency_of(experiment: Experiment, planned: int) -> int:
    """How many trials run at once on this machine."""
    asked = experiment.policy.max_concurrency
    return count_places(experiment, planned) if asked == "auto" else asked
