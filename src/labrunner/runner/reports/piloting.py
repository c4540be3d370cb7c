"""A run as a pilot for another: its variances, and what its trials cost."""

from dataclasses import replace

from labrunner.analysis.comparing.power import Pilot, estimate_pilots
from labrunner.analysis.sums.expense import Expense
from labrunner.runner.reports.results import read_results
from labrunner.store.layout import RunPaths


def read_pilots(paths: RunPaths) -> tuple[Pilot, ...]:
    """What a run tells about each of its variants against the first."""
    results = read_results(paths)
    return tuple(
        replace(
            pilot,
            cost_usd=_mean(results.expense, pilot, "cost_usd"),
            time_s=_mean(results.expense, pilot, "time_s"),
        )
        for pilot in estimate_pilots(results.arms())
    )


def _mean(expense: Expense, pilot: Pilot, name: str) -> float | None:
    """What a trial of this pair took on average, all attempts; None where nobody tells."""
    sides = [side for side in (pilot.baseline, pilot.other) if side is not None]
    told = [expense.variants[side].quantities().get(name) for side in sides]
    known = [quantity for quantity in told if quantity is not None]
    trials = sum(quantity.trials for quantity in known)
    return sum(quantity.total for quantity in known) / trials if trials else None
