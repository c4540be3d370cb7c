"""What somebody requires of a run's result, and what of it is not met.

Rules: all pairs of variants that are named are judged as one family with the comparisons that are shown, so
an answer does not depend on which way a condition is written. What data are too few for is not met, and
says so. Conditions on an order go by the interval of the difference, however errored trials had ended.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from labrunner.analysis.comparing.answer import Span
from labrunner.analysis.comparing.comparison import Comparison, improvement
from labrunner.analysis.comparing.questions import FEWEST_UNITS
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.inference.interval import LEVEL
from labrunner.analysis.judging.cautions import about_marked, about_rates
from labrunner.analysis.judging.conditions import (
    ENDS,
    FIGURES,
    OPTION,
    Condition,
    FigureCondition,
    LikenessCondition,
    OrderCondition,
    names_of,
    parse_condition,
)
from labrunner.analysis.judging.margins import refuse_declared, refuse_figures, refuse_margin, refuse_turned
from labrunner.analysis.judging.numbers import write_number
from labrunner.analysis.judging.retryshift import RetryShift
from labrunner.analysis.judging.sentences import describe_difference, describe_few_units, why_no_interval
from labrunner.errors import InputError
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import DeclaredMetric

_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
)

_ROUNDING: Final = 1e-12
_OF_GRADED: Final = ("pass", "mean", *ENDS)
"""Figures that leave out what has no grade."""


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


NOTHING: Final = Requirements()


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


def refuse_impossible(requirements: Requirements, metric: DeclaredMetric | None, *, planned: int) -> None:
    """Raise InputError when what is declared of scores has no room for a condition: before a run.

    `planned` are a variant's trials.
    """
    for condition in requirements.conditions:
        refuse_declared(condition, metric, planned)


def find_unmet(
    requirements: Requirements,
    figures: Sequence[Figures],
    shift: RetryShift | None,
    comparisons: Sequence[Comparison],
) -> tuple[str, ...]:
    """What is not met, in sentences; `comparisons` are the family that is shown, with every pair named."""
    by_name = {each.variant_id: each for each in figures}
    refuse_unknown(requirements, tuple(by_name))
    unmet = []
    if requirements.is_stable and shift is not None and not shift.is_bounded:
        unmet.append(f"{flag('require_stable')}: {shift.verdict}")
    if requirements.coverage is not None:
        unmet += _check_coverage(requirements.coverage, figures)
    for condition in requirements.conditions:
        match condition:
            case FigureCondition():
                unmet += _check_figure(condition, by_name)
            case OrderCondition():
                unmet += _check_order(condition, _find_measured(comparisons, condition))
            case LikenessCondition():
                unmet += _check_likeness(condition, _find_measured(comparisons, condition))
    return tuple(unmet)


def find_notes(
    requirements: Requirements, figures: Sequence[Figures], shift: RetryShift | None
) -> tuple[str, ...]:
    """What to know beside an answer, met or not: what bends the figures that it goes by, in sentences."""
    named = {name for condition in requirements.conditions for name in names_of(condition)}
    if any(not names_of(condition) for condition in requirements.conditions):
        named = {each.variant_id for each in figures}
    bent = [] if shift is None else [each for each in shift.variants if each.variant_id in named]
    notes = [str(caution) for caution in about_marked([each for each in figures if each.variant_id in named])]
    notes += [told for each in figures if (told := _note_open(requirements, each))]
    if shift is not None and any(each.answer != "bounded" for each in bent) and not requirements.is_stable:
        notes.append(f"retries {shift.verdict}")
    if shift is not None:
        notes += [str(caution) for caution in about_rates(shift) if caution.variant_id in named]
    return tuple(notes)


def _note_open(requirements: Requirements, figures: Figures) -> str:
    """Say of how many trials a mean that is asked for speaks, where these are not all."""
    asked = any(
        isinstance(each, FigureCondition)
        and each.figure in _OF_GRADED
        and not each.surely
        and each.variant_id in {None, figures.variant_id}
        for each in requirements.conditions
    )
    if not asked or not figures.graded or figures.graded >= figures.planned:
        return ""
    told = f"{figures.variant_id}: {figures.graded:,} of {figures.planned:,} planned trials are graded"
    if figures.lower is None or figures.upper is None:
        return f"{told}, and nothing bounds what the others would have scored"
    ends = f"{write_number(figures.lower)} to {write_number(figures.upper)}"
    return f"{told}; with the others scored as the worst or the best its mean is {ends}"


def find_pair(comparisons: Sequence[Comparison], one: str, another: str) -> Comparison:
    """The comparison of two arms, whichever of them is its baseline."""
    return next(each for each in comparisons if {each.baseline, each.other} == {one, another})


def _find_measured(comparisons: Sequence[Comparison], condition: Condition) -> Comparison:
    """The comparison that a condition is about. Raises InputError when it does not fit what is compared."""
    one, another = names_of(condition)
    found = find_pair(comparisons, one, another)
    if found.tasks:
        refuse_margin(condition, found.measure, found.reach)
        refuse_turned(condition, found.measure, is_lower_better=found.is_lower_better)
    return found


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
        found = figures[variant_id]
        refuse_figures(condition, found)
        value = _read_figure(condition, found)
        told = _name_figure(condition, found)
        if isinstance(value, str):
            unmet.append(f"{condition.text}: {told} is not known{value}")
        elif not _holds(condition, value):
            unmet.append(f"{condition.text}: {told} is {value:.4g}{_describe_open(condition, found)}")
    return unmet


def _holds(condition: FigureCondition, value: float) -> bool:
    """Whether a figure is what was asked; 24 of 30 are 0.8, though their sum in binary may be a hair less."""
    if math.isclose(value, condition.limit, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        return condition.sign in {">=", "<="}
    return _HOLDS[condition.sign](value, condition.limit)


def _read_figure(condition: FigureCondition, figures: Figures) -> float | str:
    """The figure, or why it is not known."""
    if condition.surely or condition.figure in ENDS:
        interval = figures.pass_interval if condition.figure == "pass" else figures.interval
        if interval is None:
            return f": {why_no_interval(figures)}"
        if figures.population == "tasks_like_these" and interval.units < FEWEST_UNITS:
            unit = "groups" if "groups" in interval.method else "tasks"
            return f": {describe_few_units(interval.units, unit)}"
    if not condition.surely:
        value = FIGURES[condition.figure](figures)
        return "" if value is None else value
    sure = figures.pass_sure if condition.figure == "pass" else figures.sure
    if sure is None:
        return ": nothing bounds what trials without a grade would have scored"
    return sure.low if _end(condition) == "lower" else sure.high


def _name_figure(condition: FigureCondition, figures: Figures) -> str:
    told = f"{figures.variant_id}'s {condition.figure}"
    return f"the {_end(condition)} end of {told}" if condition.surely else told


def _describe_open(condition: FigureCondition, figures: Figures) -> str:
    is_open = condition.surely and figures.planned > figures.graded
    return ", however trials without a grade had ended" if is_open else ""


def _end(condition: FigureCondition) -> str:
    return "lower" if condition.sign in {">", ">="} else "upper"


def _check_order(condition: OrderCondition, found: Comparison) -> list[str]:
    level = found.answer.interval.level if found.answer else LEVEL
    span = improvement(found, condition.better, level)
    if span is None:
        return [f"{condition.text}: {_why_unknown(found)}"]
    if _is_order_met(condition, found, span):
        return []
    if found.conclusion == "undecided because of errors":
        return [
            f"{condition.text}: undecided because of errors: {_describe_gain(condition.better, span, found)}"
        ]
    if span.high < condition.by:
        return [f"{condition.text}: it is worse than that: {_describe_gain(condition.better, span, found)}"]
    return [f"{condition.text}: not shown: {_describe_gain(condition.better, span, found)}"]


def _is_order_met(condition: OrderCondition, found: Comparison, span: Span) -> bool:
    """Whether an order holds: what is shown to be better is no worse than by any margin, and so on."""
    is_better = found.conclusion == ("better" if condition.better == found.other else "worse")
    if not condition.by:
        return is_better
    is_beyond = span.low > condition.by if condition.is_strict else span.low >= condition.by
    return (is_better and is_beyond) if condition.by > 0 else (is_better or is_beyond)


def _check_likeness(condition: LikenessCondition, found: Comparison) -> list[str]:
    """Two one-sided tests, each at the level at which an order is judged: neither is worse by the margin."""
    level = found.answer.interval.level if found.answer else LEVEL
    span = improvement(found, condition.left, level)
    if span is None:
        return [f"{condition.text}: {_why_unknown(found)}"]
    if -condition.margin < span.low and span.high < condition.margin:
        return []
    is_beyond = span.low > condition.margin or span.high < -condition.margin
    told = "they differ by more than that" if is_beyond else "not shown"
    return [f"{condition.text}: {told}: {_describe_gain(condition.left, span, found)}"]


def _describe_gain(name: str, span: Span, found: Comparison) -> str:
    """The difference as the tables tell it, with their sign: the other arm minus the baseline."""
    is_turned = (name == found.other) == found.is_lower_better
    told = Span(low=-span.high, high=-span.low, level=span.level) if is_turned else span
    difference = 0.0 if found.difference is None else found.difference
    family = f", {found.family} comparisons" if found.family > 1 else ""
    errors = ", however errored trials had ended" if found.errors else ""
    return f"{describe_difference(found, difference, told)}{family}{errors}"


def _why_unknown(found: Comparison) -> str:
    if found.has_unbounded_errors or found.conclusion == "undecided because of errors":
        return "undecided because of errors"
    if found.population == "tasks_like_these" and 0 < found.units < FEWEST_UNITS:
        return f"not enough data: {describe_few_units(found.units, found.unit)}"
    return "not enough data"
