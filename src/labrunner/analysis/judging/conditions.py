"""Conditions on a run's result as people write them.

`pass >= 0.9` asks it of every variant, `treatment.pass >= 0.9` of one, `pass >= 0.9 surely` of the end of
its interval. `treatment > baseline` asks that it is shown to be better, `treatment >= baseline - 0.05` that
it is no worse than by a margin, `treatment ~ baseline within 0.05` that they are equivalent. An order can be
said in words: `treatment better than baseline by 0.1`, `treatment no worse than baseline by 0.05`. `a < b` is
`b > a` written otherwise, where more is better. Where less is, `a < b` and `a > b + 2` would be read as of
numbers, and are refused: there it is words.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from labrunner.analysis.describing.figures import Figures
from labrunner.errors import InputError
from labrunner.experiment.options.table import flag

OPTION: Final = flag("require")
Sign = Literal[">", "<", ">=", "<="]
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
WITH_INTERVAL: Final = ("pass", "mean")
ENDS: Final = ("low", "high")
"""Figures that are ends of an interval."""
_SURELY: Final = "surely"
_CONDITION: Final = re.compile(r"^\s*(?P<left>.+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<right>.+?)\s*$")
_LIKENESS: Final = re.compile(r"^\s*(?P<left>.+?)\s+~\s+(?P<right>.+?)\s+within\s+(?P<margin>\S+)\s*$")
_WORDS: Final = re.compile(
    r"^\s*(?P<left>\S+)\s+(?:(?P<better>better)\s+than\s+(?P<over>\S+)(?:\s+by\s+(?P<gain>\S+))?"
    r"|no\s+worse\s+than\s+(?P<under>\S+)\s+by\s+(?P<loss>\S+))\s*$"
)
_MARGIN: Final = re.compile(r"^(?P<name>.+?)\s+(?P<sign>[+-])\s*(?P<margin>[0-9.]\S*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCondition:
    """A figure of one variant, or of each, against a number."""

    text: str
    variant_id: str | None
    figure: str
    sign: Sign
    limit: float
    surely: bool = False
    """Whether the unfavourable end of the figure's interval must hold it."""
    is_percent: bool = False
    """Whether the limit was written as a percentage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCondition:
    """One variant is better than another, or no worse than by a margin."""

    text: str
    better: str
    worse: str
    is_strict: bool
    """Whether it must be shown to be better by more than `by`, not only by at least that."""
    by: float
    """What it must be better by; below zero it is a margin by which it may be worse."""
    is_percent: bool = False
    """Whether that was written as a percentage."""
    is_turned: bool = False
    """Whether it was written from the other side, with `<` or `<=`."""
    is_worded: bool = False
    """Whether it was written in words, which can't be read as of numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikenessCondition:
    """Two variants differ by less than a margin."""

    text: str
    left: str
    right: str
    margin: float
    is_percent: bool = False
    """Whether the margin was written as a percentage."""


Condition = FigureCondition | OrderCondition | LikenessCondition


def parse_condition(text: str) -> Condition:
    """Read one condition. Raises InputError."""
    if likeness := _LIKENESS.match(text):
        return LikenessCondition(
            text=text,
            left=likeness["left"],
            right=likeness["right"],
            margin=_read_margin(text, likeness["margin"]),
            is_percent=_is_percent(likeness["margin"]),
        )
    if said := _WORDS.match(text):
        return _parse_words(text, said)
    match = _CONDITION.match(text)
    if match is None:
        raise InputError(
            OPTION,
            'expected something like "treatment > baseline", "treatment no worse than baseline by 0.05", '
            f'"treatment ~ baseline within 0.05" or "pass >= 0.9", found {text!r}',
        )
    left, right = match["left"], match["right"]
    sign: Sign = next(each for each in (">", "<", ">=", "<=") if each == match["sign"])
    words = right.split()
    surely = words[-1] == _SURELY and len(words) > 1
    written = " ".join(words[:-1]) if surely else right
    limit = _number(written)
    if limit is None:
        return _parse_order(text, left, sign, right)
    figure = _parse_figure(text, left, sign, limit, surely=surely)
    return replace(figure, is_percent=_is_percent(written))


def names_of(condition: Condition) -> tuple[str, ...]:
    """The variants that a condition names."""
    match condition:
        case FigureCondition(variant_id=variant_id):
            return (variant_id,) if variant_id else ()
        case OrderCondition(better=better, worse=worse):
            return (better, worse)
        case LikenessCondition(left=left, right=right):
            return (left, right)


def _parse_figure(text: str, left: str, sign: Sign, limit: float, *, surely: bool) -> FigureCondition:
    variant_id, _, figure = left.rpartition(".")
    if figure not in FIGURES:
        raise InputError(OPTION, f"{text!r}: there is no figure {figure!r}; there are: {', '.join(FIGURES)}")
    if surely and figure not in WITH_INTERVAL:
        raise InputError(OPTION, f"{text!r}: only {' and '.join(WITH_INTERVAL)} can be asked for surely")
    return FigureCondition(
        text=text, variant_id=variant_id or None, figure=figure, sign=sign, limit=limit, surely=surely
    )


def _parse_order(text: str, left: str, sign: Sign, right: str) -> OrderCondition:
    """`left >= right - m`, or the same from the other side: `right <= left + m`."""
    by, is_percent = 0.0, False
    if margin := _MARGIN.match(right):
        right, is_percent = margin["name"], _is_percent(margin["margin"])
        by = _read_margin(text, margin["margin"]) * (1 if margin["sign"] == "+" else -1)
    is_turned = sign in {"<", "<="}
    if is_turned:
        left, right, by = right, left, -by
    return OrderCondition(
        text=text,
        better=left,
        worse=right,
        is_strict=sign in {">", "<"},
        by=by,
        is_percent=is_percent,
        is_turned=is_turned,
    )


def _parse_words(text: str, said: re.Match[str]) -> OrderCondition:
    is_better = said["better"] is not None
    written = said["gain" if is_better else "loss"]
    by = 0.0 if written is None else _read_margin(text, written)
    return OrderCondition(
        text=text,
        better=said["left"],
        worse=said["over" if is_better else "under"],
        is_strict=is_better,
        by=by if is_better else -by,
        is_percent=written is not None and _is_percent(written),
        is_worded=True,
    )


def _read_margin(text: str, written: str) -> float:
    margin = _number(written)
    if margin is None or margin < 0:
        raise InputError(OPTION, f"{text!r}: expected a margin like 0.05 or 5%, found {written!r}")
    return margin


def _is_percent(text: str) -> bool:
    return text.endswith("%")


def _number(text: str) -> float | None:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return value / 100 if _is_percent(text) else value
