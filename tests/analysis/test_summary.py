import json
import subprocess
import sys

import msgspec

from labrunner.analysis.describing.figures import compute_all
from labrunner.analysis.report import make_report
from labrunner.analysis.summary import read_report, summarise
from labrunner.analysis.sums.expense import Expense
from labrunner.analysis.sums.tally import Tally
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.glance import AttemptTimes, TimingGlance
from labrunner.records.summary import SummaryRecord
from tests.kit.analysis.small_summary import BENCHMARK, make_summary, make_tally
from tests.kit.analysis.trial_rows import failed, graded


def test_the_summary_validates_against_its_schema() -> None:
    for with_intervals in (True, False):
        schema.validate("benchmark_summary_v1", canonical.encode(make_summary(with_intervals=with_intervals)))


def test_a_summary_of_nothing_validates_too() -> None:
    summary = summarise(Tally({"t0": None}), run_id="run", benchmark=BENCHMARK, planned={"a": 1})
    schema.validate("benchmark_summary_v1", canonical.encode(summary))
    assert (summary.totals.trials, summary.totals.missing) == (0, 1)
    assert summary.variants[0].pass_rate is None


def test_totals_and_variants_add_up_to_what_was_planned() -> None:
    summary = make_summary()
    totals = summary.totals
    assert (totals.trials, totals.passed, totals.failed, totals.errors, totals.missing) == (10, 5, 4, 1, 6)
    assert [variant.variant_id for variant in summary.variants] == ["a", "b"]
    for variant in summary.variants:
        assert variant.passed + variant.failed + variant.errors + variant.missing == 8
        assert variant.total == variant.passed + variant.failed + variant.errors


def test_figures_carry_the_inputs_to_compute_them_again() -> None:
    ext = json.loads(canonical.encode(make_summary()))["ext"]
    figures = ext["figures"]["b"]
    assert (figures["lower"], figures["observed"], figures["upper"]) == (0.125, 1.0, 1.0)
    assert (figures["ungraded_tasks"], figures["first_ungraded"]) == (3, ["t1", "t2", "t3"])
    assert (figures["coverage"], figures["causes"]) == (0.125, {"grade_error": 1})
    assert ext["figures"]["a"]["interval"]["method"] == "Wilson over tasks"
    assert (ext["figures"]["a"]["tasks"], ext["is_valid"]) == (4, False)


def test_who_dominates_whom_goes_by_the_metric_though_the_first_variant_has_no_grade() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    tally, expense = Tally({"t0": None, "t1": None}, declared=frozenset({seconds})), Expense()
    for name, value, cost in (("a", None, 0.1), ("fast", 10.0, 0.1), ("slow", 90.0, 0.2)):
        for task_id in tally.groups:
            row = (
                failed(name, task_id)
                if value is None
                else graded(name, task_id, value=value, metric="seconds")
            )
            times = AttemptTimes(ended_at="2026-01-01T00:00:00Z", phases_s={}, usage={"cost_usd": cost})
            tally.add(row)
            expense.add(row, TimingGlance(schedule_idx=0, attempts=(times,)))
    planned = {"a": 2, "fast": 2, "slow": 2}
    found = make_report(tally, planned, expense=expense).standings
    assert {each.variant_id: each.dominated_by for each in found} == {"fast": (), "slow": ("fast",)}


def test_a_mean_with_marked_trials_can_be_computed_again_from_the_inputs() -> None:
    rows = [
        graded("a", f"t{n}", repl_idx, value=float(n > repl_idx)) for n in range(4) for repl_idx in (0, 1)
    ]
    tally = Tally({f"t{n}": None for n in range(4)}, {row.ids.trial_id: "x" for row in rows[::3]})
    for row in rows:
        tally.add(row)
    made = summarise(tally, run_id="run", benchmark=BENCHMARK, planned={"a": 8})
    ext = json.loads(canonical.encode(made))["ext"]
    inputs, means = ext["inputs"], []
    for task in tally.groups:
        cells = [inputs[kind]["a"].get(task) for kind in ("variants", "marked")]
        sums = [dict(zip(inputs["columns"], cell, strict=True)) for cell in cells if cell is not None]
        means.append(sum(each["total"] for each in sums) / sum(each["graded"] for each in sums))
    assert ext["figures"]["a"]["with_marked"] == sum(means) / len(means) == 0.625


def test_figures_come_back_from_a_summary_on_disk_as_they_were() -> None:
    written = canonical.encode(make_summary())
    read = read_report(msgspec.json.decode(written, type=SummaryRecord))
    assert read.figures == compute_all(make_tally(), {"a": 8, "b": 8})


def test_a_partial_summary_says_that_it_has_no_intervals() -> None:
    ext = json.loads(canonical.encode(make_summary(with_intervals=False)))["ext"]
    assert ext["has_intervals"] is False
    assert ext["figures"]["a"]["interval"] is None


def test_a_partial_summary_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from tests.kit.analysis.small_summary import make_summary\n"
        "make_summary(with_intervals=False)\n"
        "sys.exit('loaded scipy' if 'scipy' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
