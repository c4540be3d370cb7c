"""Arms made from plain scores, for tests of comparisons."""

from collections.abc import Mapping, Sequence

from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.sums.tally import VariantTally
from labrunner.experiment.resolved import DeclaredMetric, Population
from tests.kit.analysis.trial_rows import failed, graded

ERROR = None
"""Stands for a trial without a grade."""


def make_arm(
    name: str,
    scores: Mapping[str, Sequence[float | None]],
    *,
    groups: Mapping[str, str | None] | None = None,
    retried: Mapping[str, Sequence[bool]] | None = None,
    metric: str = "solved",
    digests: Mapping[str, str] | None = None,
    tasks: Sequence[str] = (),
    declared: DeclaredMetric | None = None,
    population: Population = "tasks_like_these",
) -> Arm:
    """An arm whose tasks scored as told, one number a replication."""
    tally = VariantTally(declared=frozenset({declared}))
    for task_id, values in scores.items():
        for repl_idx, value in enumerate(values):
            if value is ERROR:
                tally.add(failed(name, task_id, repl_idx))
                continue
            again = bool(retried and retried.get(task_id, ())[repl_idx])
            row = graded(name, task_id, repl_idx, value=value, metric=metric, attempts=1 + again)
            tally.add(row)
    known = groups or dict.fromkeys([*scores, *tasks])
    return Arm(
        name=name,
        variant_id=name,
        tally=tally,
        groups=known,
        digests=digests or {},
        population=population,
    )
