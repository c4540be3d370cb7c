"""What somebody requires of a run's result, and what of it is not met.

Rules: all pairs of variants that are named are judged as one family with the comparisons that are shown, so
an answer does not depend on which way a condition is written. What data are too few for is not met, and
says so. Conditions on an order go by the interval of the difference, however errored trials had ended.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from labrunner.analysis.comparing.comparison import Comparison, improvement
from labrunner.analysis.comparing.questions import FEWEST_UNITS, Span
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.inference.interval import LEVEL
from labrunner.analysis.judging.conditions import (
    FIGURES,
    OPTION,
    Condition,
    FigureCondition,
    LikenessCondition,
    OrderCondition,
    names_of,
    parse_condition,
)
from labrunner.analysis.judging.numbers import write_change, write_number
from labrunner.analysis.judging.retryshift import RetryShift
from labrunner.errors import InputError
from labrunner.experiment.options.table import flag

_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Everything that was required."""

    is_stable: bool = False
    coverage: float | None = None
    conditions: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is required."""
        return self.is_stable or self.coverage is not None or bool(self.conditions)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of variants that conditions compare."""
        compared = (each for each in self.conditions if not isinstance(each, FigureCondition))
        return tuple((names[1], names[0]) for names in map(names_of, compared))


Compare = Callable[[Sequence[tuple[str, str]]], Sequence[Comparison]]
"""Compares pairs (a baseline first), with whatever is shown beside them, as one family."""


def parse_requirements(
    texts: Sequence[str], *, is_stable: bool = False, coverage: float | None = None
) -> Requirements:
    """Read conditions as people write them. Raises InputError."""
    if coverage is not None and not 0 < coverage <= 1:
        raise InputError(
            flag("require_coverage"), f"expected a share above 0 and up to 1, found {coverage:g}"
        )
    return Requirements(
        is_stable=is_stable, coverage=coverage, conditions=tuple(parse_condition(text) for text in texts)
    )


def refuse_unknown(requirements: Requirements, variants: Sequence[str]) -> None:
    """Raise InputError when a condition names a variant that is not there, or one twice."""
    for condition in requirements.conditions:
        names = names_of(condition)
        for name in names:
            if name in FIGURES and name not in variants:
                raise InputError(
                    OPTION, f"{condition.text!r}: {name} is a figure; expected a number beside it"
                )
            if name not in variants:
                known = ", ".join(variants)
                raise InputError(
                    OPTION, f"{condition.text!r}: there is no variant {name!r}; there are: {known}"
                )
        if len(names) > len(set(names)):
            raise InputError(OPTION, f"{condition.text!r} compares {names[0]} with itself")


def find_unmet(
    requirements: Requirements, figures: Sequence[Figures], shift: RetryShift | None, compare: Compare
) -> tuple[str, ...]:
    """What is not met, in sentences."""
    by_name = {each.variant_id: each for each in figures}
    refuse_unknown(requirements, tuple(by_name))
    unmet = []
    if requirements.is_stable and shift is not None and not shift.is_bounded:
        unmet.append(f"{flag('require_stable')}: {shift.verdict}")
    if requirements.coverage is not None:
        unmet += _check_coverage(requirements.coverage, figures)
    compared = compare(requirements.pairs) if requirements.pairs else ()
    for condition in requirements.conditions:
        match condition:
            case FigureCondition():
                unmet += _check_figure(condition, by_name)
            case OrderCondition():
                unmet += _check_order(condition, find_pair(compared, condition.worse, condition.better))
            case LikenessCondition():
                unmet += _check_likeness(condition, find_pair(compared, condition.left, condition.right))
    return tuple(unmet)


def find_pair(comparisons: Sequence[Comparison], one: str, another: str) -> Comparison:
    """The comparison of two arms, whichever of them is its baseline."""
    return next(each for each in comparisons if {each.baseline, each.other} == {one, another})


def _check_coverage(limit: float, figures: Sequence[Figures]) -> list[str]:
    asked = f"{flag('require_coverage')} {limit:g}"
    return [
        f"{asked}: {each.variant_id} has {each.graded:,} of {each.planned:,} graded"
        for each in figures
        if each.coverage is None or each.coverage < limit
    ]


def _check_figure(condition: FigureCondition, figures: Mapping[str, Figures]) -> list[str]:
    asked = [condition.variant_id] if condition.variant_id else list(figures)
    unmet = []
    for variant_id in asked:
        value = _figure(condition, figures[variant_id])
        named = f"the {_end(condition)} end of {variant_id}'s {condition.figure}"
        told = named if condition.surely else f"{variant_id}'s {condition.figure}"
        if value is None:
            unmet.append(f"{condition.text}: {told} is not known")
        elif not _HOLDS[condition.sign](value, condition.limit):
            unmet.append(f"{condition.text}: {told} is {value:.4g}")
    return unmet


def _figure(condition: FigureCondition, figures: Figures) -> float | None:
    if not condition.surely:
        return FIGURES[condition.figure](figures)
    interval = figures.pass_interval if condition.figure == "pass" else figures.interval
    if interval is None:
        return None
    return interval.low if _end(condition) == "lower" else interval.high


def _end(condition: FigureCondition) -> str:
    return "lower" if condition.sign in {">", ">="} else "upper"


def _check_order(condition: OrderCondition, found: Comparison) -> list[str]:
    level = found.answer.interval.level if found.answer else LEVEL
    span = improvement(found, condition.better, level)
    if span is None:
        return [f"{condition.text}: {_why_unknown(found)}"]
    if condition.is_strict and not condition.by:
        shown = "better" if condition.better == found.other else "worse"
        is_met = found.conclusion == shown
    else:
        is_met = span.low > condition.by if condition.is_strict else span.low >= condition.by
    if is_met:
        return []
    if found.conclusion == "undecided because of errors":
        return [
            f"{condition.text}: undecided because of errors: {_describe_gain(condition.better, span, found)}"
        ]
    if span.high < condition.by:
        return [f"{condition.text}: it is worse than that: {_describe_gain(condition.better, span, found)}"]
    return [f"{condition.text}: not shown: {_describe_gain(condition.better, span, found)}"]


def _check_likeness(condition: LikenessCondition, found: Comparison) -> list[str]:
    """Two one-sided tests, each at 5%: the interval at twice the error lies within the margins."""
    level = found.answer.interval.level if found.answer else LEVEL
    span = improvement(found, condition.left, 1 - 2 * (1 - level))
    if span is None:
        return [f"{condition.text}: {_why_unknown(found)}"]
    if -condition.margin < span.low and span.high < condition.margin:
        return []
    return [f"{condition.text}: not shown: {_describe_gain(condition.left, span, found)}"]


def _describe_gain(name: str, span: Span, found: Comparison) -> str:
    difference = 0.0 if found.difference is None else found.difference
    is_turned = (name == found.other) == found.is_lower_better
    told = -difference if is_turned else difference
    level = f"{100 * span.level:.3g}%"
    ends = f"{write_number(span.low)} to {write_number(span.high)}"
    sides = f"{name} does better by {write_change(told)} ({ends} at {level}"
    family = f", {found.family} comparisons" if found.family > 1 else ""
    errors = ", however errored trials had ended" if found.errors else ""
    return f"{sides}{family}{errors})"


def _why_unknown(found: Comparison) -> str:
    if found.has_unbounded_errors or found.conclusion == "undecided because of errors":
        return "undecided because of errors"
    if found.population == "tasks_like_these" and 0 < found.units < FEWEST_UNITS:
        return (
            f"not enough data: {found.units} {found.unit} are too few to speak of others, "
            f"it takes {FEWEST_UNITS} (`population: these_tasks` asks about these only)"
        )
    return "not enough data"
