"""How many attempts of an experiment fit on this machine at once."""

import os

from labrunner.experiment.resolved import Experiment
from labrunner.policy.capacity import Host, decide_concurrency


def count_places(experiment: Experiment, planned: int) -> int:
    """As many as this machine's cores and memory allow; what has no sandbox only waits, and needs neither."""
    plans = [variant.sandbox for variant in experiment.variants]
    asked = experiment.policy.max_concurrency
    if all(plan.is_none for plan in plans) and asked != "auto":
        return asked
    # A default of two cores is a ceiling for a trial, not what every trial is expected to use.
    cpus = max(plan.cpus if "cpus" in plan.asked else 1.0 for plan in plans)
    return decide_concurrency(
        _host(), cpus=cpus, memory_mb=max(plan.memory_mb for plan in plans), planned=planned
    )


def _host() -> Host:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Host(cpus=len(os.sched_getaffinity(0)), memory_mb=memory // 2**20)
