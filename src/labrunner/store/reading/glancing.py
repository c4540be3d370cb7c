"""What a run's summary says at a glance, for listings; nothing where it can't be read."""

from dataclasses import dataclass
from typing import Final

import msgspec

from labrunner.store.layout import RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of a run."""

    means: tuple[tuple[str, float | None], ...] = ()
    """Each variant's mean of its measure."""
    cost_usd: float | None = None
    """What all attempts report to have cost; None where none does."""


NOTHING: Final = Outcome()


class _Variant(msgspec.Struct):
    variant_id: str
    primary_metric_mean: float | None = None


class _Quantity(msgspec.Struct):
    total: float


class _Figures(msgspec.Struct):
    expense: dict[str, _Quantity] = {}


class _Ext(msgspec.Struct):
    figures: dict[str, _Figures] = {}


class _Summary(msgspec.Struct):
    variants: tuple[_Variant, ...]
    ext: _Ext


_decoder: Final = msgspec.json.Decoder(_Summary)


def glance_at(paths: RunPaths) -> Outcome:
    """What a run's summary says; of a live run, what it said last."""
    try:
        summary = _decoder.decode(paths.summary.read_bytes())
    except (OSError, ValueError, RecursionError):
        return NOTHING
    costs = [
        each.expense["cost_usd"].total for each in summary.ext.figures.values() if "cost_usd" in each.expense
    ]
    return Outcome(
        means=tuple((each.variant_id, each.primary_metric_mean) for each in summary.variants),
        cost_usd=sum(costs) if costs else None,
    )
