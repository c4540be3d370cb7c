"""How many trials of an experiment run at once on this machine."""

import os

from labrunner.experiment.resolved import Experiment
from labrunner.policy.capacity import Host, decide_concurrency


def concurrency_of(experiment: Experiment, planned: int) -> int:
    """How many trials run at once."""
    asked = experiment.policy.max_concurrency
    if asked != "auto":
        return asked
    plans = [variant.sandbox for variant in experiment.variants]
    # A default of two cores is a ceiling for a trial, not what every trial is expected to use.
    cpus = max(plan.cpus if "cpus" in plan.asked else 1.0 for plan in plans)
    return decide_concurrency(
        _host(), cpus=cpus, memory_mb=max(plan.memory_mb for plan in plans), planned=planned
    )


def _host() -> Host:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Host(cpus=len(os.sched_getaffinity(0)), memory_mb=memory // 2**20)
