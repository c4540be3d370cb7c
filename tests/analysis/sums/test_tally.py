import subprocess
import sys
import tracemalloc

import pytest

from labrunner.analysis.sums.tally import Tally
from labrunner.records.cause import Cause
from tests.kit.analysis.trial_rows import failed, graded


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
