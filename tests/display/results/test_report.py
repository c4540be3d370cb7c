import json
import re
from collections import Counter

import pytest

from labrunner.analysis.summary import summarise
from labrunner.analysis.sums.expense import Expense
from labrunner.analysis.sums.tally import Tally
from labrunner.display.results.show import show_summary
from labrunner.display.text.quantities import format_duration
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.glance import AttemptTimes, TimingGlance
from labrunner.records.rows import Benchmark, TrialRow
from labrunner.records.summary import SummaryRecord
from tests.kit.analysis.trial_rows import failed, graded
from tests.kit.display.printing import to_text

_CLOCK = re.compile(r"\d+:\d\d(?::\d\d)?")


def make_summary() -> SummaryRecord:
    """A run with everything in it: errors, retries, expenses, groups, ragged replications."""
    tally, expense = Tally({f"t{n}": f"g{n % 6}" for n in range(12)}), Expense()
    for n in range(12):
        for repl_idx in range(3 if n else 4):
            for variant_id, limit in (("base", 5), ("new", 7)):
                number = (7 * n + 3 * repl_idx) % 11
                again = variant_id == "new" and number % 4 == 0
                row = (
                    failed(variant_id, f"t{n}", repl_idx)
                    if number == 9 and variant_id == "base"
                    else graded(
                        variant_id, f"t{n}", repl_idx, value=float(number < limit), attempts=1 + again
                    )
                )
                tally.add(row)
                attempts = [
                    AttemptTimes(
                        ended_at="2026-01-01T00:00:00Z",
                        phases_s={"prepare": 0.25, "agent": 3.0 + number},
                        usage={"tokens": 100 + number, "cost_usd": 0.01 * number, "cpu_s": 0.5},
                    )
                ] * len(row.attempts)
                expense.add(row, TimingGlance(schedule_idx=0, attempts=tuple(attempts)))
    return summarise(
        tally,
        run_id="run",
        benchmark=Benchmark(adapter_id="labrunner", name="demo", split="all"),
        planned={"base": 37, "new": 37},
        expense=expense,
    )


def leaves(value: object) -> list[float]:
    match value:
        case bool():
            return []
        case int() | float():
            return [value]
        case dict():
            return [leaf for each in value.values() for leaf in leaves(each)]
        case list():
            return [leaf for each in value for leaf in leaves(each)]
        case _:
            return []


def spellings(value: float) -> set[str]:
    """The ways in which a figure may be printed."""
    return {
        f"{value:.3f}",
        f"{value:+.3f}",
        f"{value:.2f}",
        f"{value:.4f}",
        f"{value:.1f}",
        f"{value:.3g}",
        f"{value:,.0f}",
        f"{100 * value:.1f}%",
        f"{100 * value:.0f}%",
        f"{value:.0f}",
    }


def test_every_figure_that_is_shown_stands_in_the_summary() -> None:
    summary = make_summary()
    plain = json.loads(canonical.encode(summary))
    known = set().union(*(spellings(value) for value in leaves(plain)))
    # What follows from two figures there: rates and attempts a trial.
    for shift in plain["ext"]["retry_shift"]["variants"]:
        known |= spellings(shift["retried"] / shift["finished"])
        known |= spellings(shift["attempts"] / shift["finished"])
    told = to_text(show_summary(summary), 160)
    chart = [line for line in told.splitlines() if "●" in line or line.lstrip().startswith("0 ")]
    shown = [line for line in told.splitlines() if line not in chart]
    clocks = {format_duration(value) for value in leaves(plain)}
    assert set(_CLOCK.findall("\n".join(shown))) <= clocks
    bare = [_CLOCK.sub("", line) for line in shown]
    figures = [word for line in bare for word in re.findall(r"(?<![\w.@^])[-+]?\d[\d,.]*%?(?!\w)", line)]
    missing = [figure for figure in figures if figure.rstrip(".,") not in known | {"95%", "0", "1"}]
    assert missing == []
    assert len(figures) > 100


def test_a_summary_with_everything_in_it_validates() -> None:
    schema.validate("benchmark_summary_v1", canonical.encode(make_summary()))


def test_the_inputs_are_enough_to_compute_a_mean_again() -> None:
    ext = json.loads(canonical.encode(make_summary()))["ext"]
    columns, cells = ext["inputs"]["columns"], ext["inputs"]["variants"]["new"]
    rows = [dict(zip(columns, cell, strict=True)) for cell in cells.values()]
    means = [row["total"] / row["graded"] for row in rows if row["graded"]]
    assert sum(means) / len(means) == pytest.approx(ext["figures"]["new"]["observed"])
    assert ext["inputs"]["groups"]["t7"] == "g1"


def test_the_whole_page_is_told() -> None:
    told = to_text(show_summary(make_summary()), 120)
    for part in (
        "95% interval", "coverage", "within tasks", "icc", "pass@k", "pass^k", "median", "p95",
        "all attempts", "discarded", "cost (USD)", "tokens", "against base  difference",
        "retries: the mean with retried trials scored 0",
        "odds of passing when retried", "odds within tasks", "rate against base",
        "rates and odds can't rule a bias by retries out", "retries not bounded:",
        "warning: base: an interval over only 6 groups is rough", "graded trials; each weighs the same",
    ):  # fmt: skip
        assert part in told, part


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_keeps_within_the_terminal(width: int) -> None:
    assert max(map(len, to_text(show_summary(make_summary()), width).splitlines())) <= width


def test_a_live_summary_says_that_it_is_interim() -> None:
    told = to_text(show_summary(make_summary(), is_over=False), 120)
    assert "interim: an interval looked at while a run goes on" in told


def summary_of(*rows: TrialRow, metric: DeclaredMetric | None = None) -> SummaryRecord:
    tally = Tally({row.ids.task_id: None for row in rows}, declared=frozenset({metric}))
    for row in rows:
        tally.add(row)
    benchmark = Benchmark(adapter_id="labrunner", name="demo", split="all")
    variants = Counter(row.ids.variant_id for row in rows)
    return summarise(tally, run_id="run", benchmark=benchmark, planned=variants)


def test_both_answers_stand_below_the_differences() -> None:
    rows = [graded("a", f"t{n}", value=0.0) for n in range(12)]
    rows += [graded("b", f"t{n}", value=float(n < 5)) for n in range(12)]
    told = " ".join(to_text(show_summary(summary_of(*rows)), width=160).split())
    assert (
        "On these 12 tasks b is better than a (p = 0.017). On tasks like these, b minus a in mean `solved`: "
        in told
    )
    assert "against a difference 95% interval p tasks conclusion" in told


def test_less_is_said_to_be_better_where_it_is() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower", min=0.0)
    rows = [
        graded(name, f"t{n}", value=high + n, metric="seconds")
        for n in range(8)
        for name, high in (("a", 30.0), ("b", 20.0))
    ]
    told = " ".join(to_text(show_summary(summary_of(*rows, metric=seconds)), width=160).split())
    assert "mean of `seconds` (lower is better) over 8 tasks" in told
    assert "b minus a in mean `seconds`, lower is better: -10.000" in told


def test_retries_are_told_with_the_ends_of_the_declared_scale() -> None:
    points = DeclaredMetric(name="points", min=0.0, max=100.0)
    rows = [graded("a", f"t{n}", value=50.0 + n, metric="points", attempts=1 + (n == 0)) for n in range(8)]
    told = " ".join(to_text(show_summary(summary_of(*rows, metric=points)), width=160).split())
    assert "the mean with retried trials scored 0, as they ended, scored 100, left out" in told
    assert "most as 0 mean as 100 left out" in told


def test_intervals_of_several_comparisons_say_how_sure_each_is() -> None:
    rows = [
        graded(name, f"t{n}", value=float(n < most))
        for n in range(8)
        for name, most in zip("abc", (0, 8, 1), strict=True)
    ]
    told = " ".join(to_text(show_summary(summary_of(*rows)), width=160).split())
    assert "against a difference 97.5% interval p tasks conclusion" in told
    assert "b minus a in mean `solved`: +1.000 (97.5% interval" in told


def test_several_comparisons_are_said_to_be_adjusted() -> None:
    rows = [
        graded(name, f"t{n}", value=float(n < most))
        for n in range(8)
        for name, most in zip("abc", (1, 7, 2), strict=True)
    ]
    told = to_text(show_summary(summary_of(*rows)), width=160)
    assert "p and intervals are adjusted for 2 comparisons (Holm)" in told


def test_after_a_run_without_any_grade_no_empty_tables_are_shown() -> None:
    told = to_text(show_summary(summary_of(failed("a"), failed("b")), in_full=False), width=120)
    assert "lower" not in told
    assert "against" not in told
    assert told.count("warning:") == 4
