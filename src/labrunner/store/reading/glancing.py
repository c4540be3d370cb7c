"""What a run's summary says at a glance, for listings; nothing where it can't be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from labrunner.store.layout import RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of a run."""

    means: tuple[tuple[str, float | None], ...] = ()
    """Each variant's mean of its measure."""
    intervals: tuple[tuple[float, float] | None, ...] = ()
    """Of these means, in the same order; None where there is none, or none yet."""
    retried: int = 0
    """Trials that needed more than one attempt."""
    cost_usd: float | None = None
    """What all attempts report to have cost; None where none does."""


NOTHING: Final = Outcome()


class _Variant(msgspec.Struct):
    variant_id: str
    primary_metric_mean: float | None = None


class _Quantity(msgspec.Struct):
    total: float


class _MeanEnds(msgspec.Struct):
    low: float
    high: float


class _Figures(msgspec.Struct):
    retried: int = 0
    interval: _MeanEnds | None = None
    expense: dict[str, _Quantity] = {}


class _Ext(msgspec.Struct):
    figures: dict[str, _Figures] = {}


class _Summary(msgspec.Struct):
    variants: tuple[_Variant, ...]
    ext: _Ext


_decoder: Final = msgspec.json.Decoder(_Summary)


def glance_at(paths: RunPaths, state: str) -> Outcome:
    """What a run's summary says; of a live run, what it said last.

    A crashed run's summary is of some moment before the crash: nothing is told from it.
    """
    if state == "crashed":
        return NOTHING
    try:
        summary = _decoder.decode(paths.summary.read_bytes())
    except (OSError, ValueError, RecursionError):
        return NOTHING
    costs = [
        each.expense["cost_usd"].total for each in summary.ext.figures.values() if "cost_usd" in each.expense
    ]
    return Outcome(
        means=tuple((each.variant_id, each.primary_metric_mean) for each in summary.variants),
        intervals=tuple(_find_interval(summary.ext.figures, each.variant_id) for each in summary.variants),
        retried=sum(each.retried for each in summary.ext.figures.values()),
        cost_usd=sum(costs) if costs else None,
    )


def _find_interval(figures: Mapping[str, _Figures], variant_id: str) -> tuple[float, float] | None:
    found = figures[variant_id].interval if variant_id in figures else None
    return None if found is None else (found.low, found.high)
