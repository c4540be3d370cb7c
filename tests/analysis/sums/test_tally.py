import subprocess
import sys
import tracemalloc
from dataclasses import replace

import pytest

from labrunner.analysis.sums.measure import choose_measure
from labrunner.analysis.sums.tally import Tally
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.records.cause import Cause
from tests.kit.analysis.trial_rows import failed, graded
from tests.kit.made_runs import make_grid

LOWER = DeclaredMetric(name="seconds", better="lower", min=0.0, max=60.0)


def test_a_failed_trial_is_counted_by_cause_and_enters_no_sum() -> None:
    tally = Tally({"t0": None})
    tally.add(graded(value=1.0))
    tally.add(failed(repl_idx=1, cause=Cause.SANDBOX))
    tally.add(failed(repl_idx=2, cause=Cause.GRADE_ERROR))
    variant = tally.variants["a"]
    assert (variant.graded, variant.passed, variant.errors) == (1, 1, 2)
    assert variant.causes == {Cause.SANDBOX: 1, Cause.GRADE_ERROR: 1}
    assert variant.cells["t0"].total == 1.0


def test_sums_are_kept_for_each_variant_and_task() -> None:
    tally = Tally({"t0": None, "t1": None})
    for value in (0.25, 0.5, 1.0):
        tally.add(graded("a", "t0", value=value))
    tally.add(graded("b", "t1", value=0.0))
    cell = tally.variants["a"].cells["t0"]
    assert (cell.graded, cell.passed, cell.failed) == (3, 1, 2)
    assert (cell.total, cell.spread) == pytest.approx((1.75, 1.3125 - 1.75**2 / 3))
    assert (tally.variants["a"].lowest, tally.variants["a"].highest) == (0.25, 1.0)
    assert tally.variants["b"].cells.keys() == {"t1"}


def test_a_value_between_0_and_1_ends_being_binary() -> None:
    tally = Tally({"t0": None})
    tally.add(graded(value=1.0))
    assert tally.variants["a"].is_binary
    tally.add(graded(value=0.5))
    tally.add(graded(value=0.0))
    assert not tally.variants["a"].is_binary


def test_retries_attempts_and_limits_are_counted() -> None:
    tally = Tally({"t0": None})
    tally.add(graded(attempts=3))
    tally.add(graded(repl_idx=1, value=0.0, ended_by="timeout"))
    variant = tally.variants["a"]
    assert (variant.retried, variant.attempts) == (1, 4)
    assert variant.ended_by == {"timeout": 1}


def tally_of(*declared: DeclaredMetric | None) -> Tally:
    plain = make_grid(tasks=len(declared))
    tasks = tuple(
        replace(task, grader=replace(task.grader, metric=metric))
        for task, metric in zip(plain.tasks, declared, strict=True)
    )
    tally = Tally.of(replace(plain, tasks=tasks))
    for task in tasks:
        tally.add(graded("a", task.id, value=12.0, metric="seconds"))
    return tally


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ((LOWER, LOWER), ("seconds", "lower", 0.0, 60.0)),
        ((LOWER, replace(LOWER, max=600.0)), ("seconds", "lower", 0.0, None)),
        ((LOWER, DeclaredMetric(name="points")), ("seconds", "lower", 0.0, 60.0)),
        ((LOWER, replace(LOWER, better="higher")), ("pass", "higher", 0.0, 1.0)),
        ((LOWER, None), ("pass", "higher", 0.0, 1.0)),
        ((replace(LOWER, better="higher"), None), ("seconds", "higher", None, None)),
    ],
)
def test_a_runs_metric_keeps_the_direction_that_its_tasks_agree_on(
    declared: tuple[DeclaredMetric | None, ...], expected: tuple[str, str, float | None, float | None]
) -> None:
    found = choose_measure(tally_of(*declared).variants["a"])
    assert (found.name, found.better, found.low, found.high) == expected


def test_memory_does_not_grow_with_replications() -> None:
    tally = Tally({"t0": None})
    row = graded()
    for _ in range(1_000):
        tally.add(row)
    tracemalloc.start()
    for _ in range(20_000):
        tally.add(row)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 4_096


def test_tallying_and_summarising_load_nothing_heavy() -> None:
    code = (
        "import sys, labrunner.analysis.sums.tally, labrunner.analysis.describing.figures\n"
        "import labrunner.analysis.summary\n"
        "heavy = {'numpy', 'scipy', 'pydantic', 'rich'} & sys.modules.keys()\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
