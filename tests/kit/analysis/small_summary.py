"""A summary of two variants, one of them half run."""

from labrunner.analysis.summary import summarise
from labrunner.analysis.sums.tally import Tally
from labrunner.records.rows import Benchmark
from labrunner.records.summary import SummaryRecord
from tests.kit.analysis.trial_rows import failed, graded

BENCHMARK = Benchmark(adapter_id="labrunner", name="demo", split="all")


def make_tally() -> Tally:
    tally = Tally({f"t{number}": None for number in range(4)})
    for number in range(4):
        for repl_idx in range(2):
            tally.add(graded("a", f"t{number}", repl_idx, value=float(number > 1)))
    tally.add(graded("b", "t0", value=1.0))
    tally.add(failed("b", "t1"))
    return tally


def make_summary(*, with_intervals: bool = True) -> SummaryRecord:
    return summarise(
        make_tally(),
        run_id="run",
        benchmark=BENCHMARK,
        planned={"a": 8, "b": 8},
        with_intervals=with_intervals,
    )
