"""What somebody requires of a run's result, and what of it is not met.

`pass >= 0.9` asks it of every variant, `treatment.pass >= 0.9` of one. `treatment > baseline` asks that the
difference is shown: after adjustment for several comparisons, and however errored trials had ended.
`treatment >= baseline` asks that the treatment is not shown to be worse.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from labrunner.analysis.comparison import Comparison, Conclusion
from labrunner.analysis.figures import Figures
from labrunner.analysis.retryshift import RetryShift
from labrunner.errors import InputError

OPTION: Final = "--require"
Sign = Literal[">", "<", ">=", "<="]
_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
)
_ALLOWED: Final[Mapping[str, frozenset[Conclusion]]] = MappingProxyType(
    {
        ">": frozenset({"better"}),
        "<": frozenset({"worse"}),
        ">=": frozenset({"better", "no difference shown"}),
        "<=": frozenset({"worse", "no difference shown"}),
    }
)
FIGURES: Final[Mapping[str, Callable[[Figures], float | None]]] = MappingProxyType(
    {
        "pass": lambda figures: figures.pass_rate,
        "mean": lambda figures: figures.observed,
        "lower": lambda figures: figures.lower,
        "upper": lambda figures: figures.upper,
        "low": lambda figures: figures.interval.low if figures.interval else None,
        "high": lambda figures: figures.interval.high if figures.interval else None,
        "coverage": lambda figures: figures.coverage,
        "errors": lambda figures: figures.errors,
        "retried": lambda figures: figures.retried,
    }
)
_CONDITION: Final = re.compile(r"^\s*(?P<left>.+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<right>.+?)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCondition:
    """A figure of one variant, or of each, against a number."""

    text: str
    variant_id: str | None
    figure: str
    sign: Sign
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCondition:
    """One variant against another."""

    text: str
    left: str
    sign: Sign
    right: str


Condition = FigureCondition | OrderCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Everything that was required."""

    is_stable: bool = False
    coverage: float | None = None
    conditions: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is required."""
        return self.is_stable or self.coverage is not None or bool(self.conditions)


Compare = Callable[[str, str], Comparison]
"""Compares a baseline (first) with another variant."""


def parse_requirements(
    texts: Sequence[str], *, is_stable: bool = False, coverage: float | None = None
) -> Requirements:
    """Read conditions as people write them. Raises InputError."""
    if coverage is not None and not 0 < coverage <= 1:
        raise InputError("--require-coverage", f"expected a share above 0 and up to 1, found {coverage:g}")
    return Requirements(
        is_stable=is_stable, coverage=coverage, conditions=tuple(parse_condition(text) for text in texts)
    )


def parse_condition(text: str) -> Condition:
    """Read one condition. Raises InputError."""
    match = _CONDITION.match(text)
    if match is None:
        raise InputError(
            OPTION, f'expected something like "treatment > baseline" or "pass >= 0.9", found {text!r}'
        )
    left, right = match["left"], match["right"]
    sign: Sign = next(each for each in (">", "<", ">=", "<=") if each == match["sign"])
    limit = _number(right)
    if limit is None:
        return OrderCondition(text=text, left=left, sign=sign, right=right)
    variant_id, _, figure = left.rpartition(".")
    if figure not in FIGURES:
        raise InputError(OPTION, f"{text!r}: there is no figure {figure!r}; there are: {', '.join(FIGURES)}")
    return FigureCondition(text=text, variant_id=variant_id or None, figure=figure, sign=sign, limit=limit)


def refuse_unknown(requirements: Requirements, variants: Sequence[str]) -> None:
    """Raise InputError when a condition names a variant that is not there."""
    for condition in requirements.conditions:
        for name in _names(condition):
            if name in FIGURES and name not in variants:
                raise InputError(
                    OPTION, f"{condition.text!r}: {name} is a figure; expected a number beside it"
                )
            if name not in variants:
                known = ", ".join(variants)
                raise InputError(
                    OPTION, f"{condition.text!r}: there is no variant {name!r}; there are: {known}"
                )


def find_unmet(
    requirements: Requirements, figures: Sequence[Figures], shift: RetryShift | None, compare: Compare
) -> tuple[str, ...]:
    """What is not met, in sentences."""
    by_name = {each.variant_id: each for each in figures}
    refuse_unknown(requirements, tuple(by_name))
    unmet = []
    if requirements.is_stable and shift is not None and not shift.is_stable:
        unmet.append(f"--require-stable: {shift.verdict}")
    if requirements.coverage is not None:
        unmet += _check_coverage(requirements.coverage, figures)
    for condition in requirements.conditions:
        match condition:
            case FigureCondition():
                unmet += _check_figure(condition, by_name)
            case OrderCondition():
                unmet += _check_order(condition, compare)
    return tuple(unmet)


def _check_coverage(limit: float, figures: Sequence[Figures]) -> list[str]:
    return [
        f"--require-coverage {limit:g}: {each.variant_id} has {each.graded:,} of {each.planned:,} graded"
        for each in figures
        if each.coverage is None or each.coverage < limit
    ]


def _check_figure(condition: FigureCondition, figures: Mapping[str, Figures]) -> list[str]:
    asked = [condition.variant_id] if condition.variant_id else list(figures)
    unmet = []
    for variant_id in asked:
        value = FIGURES[condition.figure](figures[variant_id])
        if value is None:
            unmet.append(f"{condition.text}: {variant_id}'s {condition.figure} is not known")
        elif not _HOLDS[condition.sign](value, condition.limit):
            unmet.append(f"{condition.text}: {variant_id}'s {condition.figure} is {value:.4g}")
    return unmet


def _check_order(condition: OrderCondition, compare: Compare) -> list[str]:
    found = compare(condition.right, condition.left)
    if found.conclusion in _ALLOWED[condition.sign]:
        return []
    told = f"{condition.text}: {found.conclusion}"
    if found.difference is None or found.p_adjusted is None:
        return [told]
    return [f"{told} (difference {found.difference:+.3f}, p = {found.p_adjusted:.3g})"]


def _names(condition: Condition) -> tuple[str, ...]:
    match condition:
        case FigureCondition(variant_id=variant_id):
            return (variant_id,) if variant_id else ()
        case OrderCondition(left=left, right=right):
            return (left, right)


def _number(text: str) -> float | None:
    is_percent = text.endswith("%")
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return value / 100 if is_percent else value
