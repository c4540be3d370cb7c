"""What `benchmark/summary.json` says about a run: totals, one line a variant, every other figure under `ext`.

Failed slots are missing data: they stand under `error`, never under `fail`, and are in no rate or mean.
"""

from typing import Annotated, Any, Literal

import msgspec

from labrunner.records.completion import Evaluator
from labrunner.records.rows import Benchmark

Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Totals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the run's finished trials ended."""

    trials: Count
    passed: Count = msgspec.field(name="pass")
    failed: Count = msgspec.field(name="fail")
    missing: Count
    """Planned and not finished."""
    errors: Count = msgspec.field(name="error")


class VariantSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variant's figures."""

    variant_id: str
    total: Count
    pass_rate: Share | None
    """None when nothing was graded: no trials are not a rate of zero."""
    passed: Count = msgspec.field(name="pass")
    failed: Count = msgspec.field(name="fail")
    missing: Count
    errors: Count = msgspec.field(name="error")
    primary_metric_name: str | None
    primary_metric_mean: float | None


class SummaryRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """`benchmark/summary.json`."""

    schema_version: Literal["benchmark_summary_v1"]
    run_id: str
    benchmark: Benchmark
    totals: Totals
    variants: tuple[VariantSummary, ...]
    created_at: str | None = None
    evaluator: Evaluator | None = None
    ext: dict[str, Any] = {}  # any JSON: intervals, comparisons, warnings, with the inputs to recompute them
