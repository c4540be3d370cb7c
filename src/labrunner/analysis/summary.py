"""`summary.json`: the run's totals and every variant's figures, with the inputs to compute them again.

Rule: the same trials, tallied in schedule order, give the same summary, whoever asks for it and when.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import msgspec

from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.judging.retryshift import MARGIN
from labrunner.analysis.report import Report, from_ext, make_report, to_ext
from labrunner.analysis.sums.conduct import Conduct
from labrunner.analysis.sums.expense import Expense
from labrunner.analysis.sums.lineage import Lineage
from labrunner.analysis.sums.tally import Tally
from labrunner.experiment.resolved import Population
from labrunner.policy.budget import Budget
from labrunner.records.rows import Benchmark
from labrunner.records.summary import SummaryRecord, Totals, VariantSummary


def summarise(  # noqa: PLR0913 - what a summary names besides its figures
    tally: Tally,
    *,
    run_id: str,
    benchmark: Benchmark,
    planned: Mapping[str, int],
    created_at: str | None = None,
    expense: Expense | None = None,
    with_intervals: bool = True,
    budget: Budget | None = None,
    lineage: Lineage | None = None,
    conduct: Conduct | None = None,
    population: Population = "tasks_like_these",
    retry_margin: float = MARGIN,
    replay: str | None = None,
    required: Sequence[tuple[str, str]] = (),
) -> SummaryRecord:
    """Summarise what has been tallied; `planned` names each variant's number of slots, in order.

    Pairs of variants that are `required` are compared too, in one family with the others.

    Without intervals nothing heavy is loaded, so a live run can refresh its summary as often as it likes.
    """
    report = make_report(
        tally,
        planned,
        expense=expense,
        with_intervals=with_intervals,
        budget=budget,
        conduct=conduct,
        population=population,
        retry_margin=retry_margin,
        replay=replay,
        required=required,
    )
    figures = report.figures
    return SummaryRecord(
        schema_version="benchmark_summary_v1",
        run_id=run_id,
        benchmark=benchmark,
        totals=_totals(figures),
        variants=tuple(_variant(figure) for figure in figures),
        created_at=created_at,
        ext=to_ext(report, tally) | {"lineage": asdict(lineage) if lineage is not None else None},
    )


def _totals(figures: tuple[Figures, ...]) -> Totals:
    return Totals(
        trials=sum(figure.finished for figure in figures),
        passed=sum(figure.passed for figure in figures),
        failed=sum(figure.failed for figure in figures),
        missing=sum(figure.missing for figure in figures),
        errors=sum(figure.errors for figure in figures),
    )


def _variant(figure: Figures) -> VariantSummary:
    return VariantSummary(
        variant_id=figure.variant_id,
        total=figure.finished,
        pass_rate=figure.pass_rate,
        passed=figure.passed,
        failed=figure.failed,
        missing=figure.missing,
        errors=figure.errors,
        primary_metric_name=figure.measure if figure.graded else None,
        primary_metric_mean=figure.observed,
    )


def read_lineage(summary: SummaryRecord) -> Lineage | None:
    """What the runs before this one did; None where there were none."""
    return msgspec.convert(summary.ext.get("lineage"), Lineage | None)


def read_report(summary: SummaryRecord) -> Report:
    """Read everything that was computed back from a summary."""
    return from_ext(summary.ext, tuple(variant.variant_id for variant in summary.variants))
