"""Where a run's tasks do not agree about their scores: what that does to the figures, in sentences.

Nothing is guessed then: which way is better is not, so verdicts are averaged; nor where a scale ends, so
nothing bounds what a missing score would have been.
"""

from collections.abc import Iterator, Sequence

from labrunner.analysis.judging.cautions import Caution
from labrunner.analysis.sums.measure import PASS, choose_measure, declared_of, shared_metric
from labrunner.analysis.sums.tally import VariantTally
from labrunner.experiment.resolved import DeclaredMetric

KIND = "declarations"


def about_declarations(variants: Sequence[VariantTally]) -> Iterator[Caution]:
    """Say what tasks of a run do not agree on, where that changes what is averaged or what is bounded."""
    names = sorted(set().union(*(variant.metrics for variant in variants)))
    if len(names) > 1:
        told = " and ".join(f"`{name}`" for name in names)
        yield _caution(f"trials are scored by {told}: what is averaged is whether they pass")
        return
    name, chosen = shared_metric(*variants), choose_measure(*variants)
    declared = sorted(declared_of(name, *variants), key=_describe)
    if len(declared) < 2:
        return
    said = " and ".join(_describe(each) for each in declared)
    if chosen.name == PASS != name:
        yield _caution(
            f"tasks do not agree which way `{name}` is better ({said}): what is averaged is whether they "
            "pass; declare one `better` for all"
        )
    elif chosen.bounds is None and any(each and None not in (each.min, each.max) for each in declared):
        yield _caution(
            f"tasks do not agree where `{name}` ends ({said}): nothing bounds what a trial without a grade "
            "would have scored; declare one `min` and `max` for all"
        )


def _caution(text: str) -> Caution:
    return Caution(kind=KIND, variant_id=None, text=text)


def _describe(metric: DeclaredMetric | None) -> str:
    if metric is None:
        return "nothing declared"
    ends = [f"{name} {end:g}" for name, end in (("min", metric.min), ("max", metric.max)) if end is not None]
    return ", ".join((f"{metric.better} is better", *ends))
