"""Whether a condition asks for something that its scale has room for.

Rules: a limit or margin that would always hold, or never could, is refused with what would be right: a gate
that can't close, or can't open, is worse than none. A percentage is one of a scale of 0 to 1, and of no
other: 5% of seconds would be read as 0.05 seconds.
"""

from typing import Final

from labrunner.analysis.describing.figures import PASS, Figures
from labrunner.analysis.judging.conditions import (
    OPTION,
    Condition,
    FigureCondition,
    LikenessCondition,
    OrderCondition,
)
from labrunner.errors import InputError
from labrunner.experiment.resolved import DeclaredMetric

_COUNTS: Final = ("errors", "retried")
"""Figures that are numbers of trials."""
_SHARES: Final = ("pass", "coverage")
_UNIT: Final = (0.0, 1.0)
Ends = tuple[float | None, float | None]
"""Of what a figure can be; None: nothing bounds it there."""
_EXAMPLE: Final = 0.05
"""Of a scale: a margin to write instead."""
_LIMIT: Final = 0.9
"""Of a scale: a limit to write instead."""


def refuse_figures(condition: FigureCondition, figures: Figures) -> None:
    """Raise InputError where a figure of this variant can't be what the condition asks, or always is."""
    if condition.figure in _COUNTS or condition.figure in _SHARES or figures.graded:
        _refuse_limit(condition, figures.measure, figures.scale or (None, None), figures.planned)


def refuse_margin(condition: Condition, measure: str, reach: float | None) -> None:
    """Raise InputError where a margin is not one for differences of a measure that reach so far."""
    if isinstance(condition, FigureCondition):
        return
    margin = condition.margin if isinstance(condition, LikenessCondition) else abs(condition.by)
    if isinstance(condition, LikenessCondition) and not margin:
        raise _refusal(
            condition, "no data show that two variants are exactly alike; expected a margin above 0"
        )
    if condition.is_percent and reach != 1.0:
        raise _refusal(
            condition,
            f"a percentage fits differences on a scale of 0 to 1, and `{measure}` {_describe_reach(reach)}; "
            f"expected a margin in units of `{measure}`{_suggest(reach)}",
        )
    if reach is not None and margin >= reach:
        raise _refusal(
            condition,
            f"differences of `{measure}` are at most {reach:g}, so a margin of {margin:g} decides nothing; "
            f"expected one below {reach:g}{_suggest(reach)}",
        )


def refuse_turned(condition: Condition, measure: str, *, is_lower_better: bool) -> None:
    """Raise InputError where signs may be read as of numbers, though less is better.

    `new < old` may mean that new takes less, or that it is worse; `new > old + 2` that it takes 2 more, or
    that it is better by 2.
    """
    if not isinstance(condition, OrderCondition) or condition.is_worded or not is_lower_better:
        return
    one, another = condition.better, condition.worse
    if condition.is_turned:
        one, another = another, one
        told = "`<` may mean less or worse"
    elif condition.by:
        told = f"a margin of {abs(condition.by):g} may mean that much more, or that much better or worse"
    else:
        return
    by = f"{abs(condition.by) or _EXAMPLE:g}"
    raise _refusal(
        condition,
        f'less of `{measure}` is better, so {told}; say it in words: "{one} better than {another}", '
        f'"{one} better than {another} by {by}" or "{one} no worse than {another} by {by}"',
    )


def refuse_declared(condition: Condition, metric: DeclaredMetric | None, planned: int) -> None:
    """The same by what an experiment declares, before anything is run; where it declares nothing, later.

    `planned` are a variant's trials.
    """
    ends: Ends = (None, None) if metric is None else (metric.min, metric.max)
    if isinstance(condition, FigureCondition):
        if metric is not None or condition.figure in _COUNTS or condition.figure in _SHARES:
            _refuse_limit(condition, metric.name if metric else PASS, ends, planned)
    elif metric is not None:
        low, high = ends
        refuse_margin(condition, metric.name, None if low is None or high is None else high - low)
        refuse_turned(condition, metric.name, is_lower_better=metric.better == "lower")


def _refuse_limit(condition: FigureCondition, measure: str, scale: Ends, planned: int) -> None:
    if condition.figure in _COUNTS:
        if condition.is_percent:
            raise _refusal(
                condition,
                f"{condition.figure} is a number of trials, not a share; expected one like 5, or ask for "
                "coverage",
            )
        scale = 0.0, float(planned)
    ends: Ends = _UNIT if condition.figure in _SHARES else scale
    if condition.is_percent and ends != _UNIT:
        raise _refusal(
            condition,
            f"a percentage fits a scale of 0 to 1, and `{measure}` {_describe_scale(scale)}; "
            f"expected a limit in units of `{measure}`",
        )
    if told := _why_idle(condition, ends):
        raise _refusal(condition, f"{told}; expected a limit in between{_suggest_limit(condition, ends)}")


def _why_idle(condition: FigureCondition, ends: Ends) -> str:
    """Why a limit on a scale with these ends decides nothing; empty where it does."""
    low, high = ends
    if low is None and high is None:
        return ""
    scale = f"{condition.figure} {_describe_ends(ends)}"
    if (low is not None and condition.limit < low) or (high is not None and condition.limit > high):
        return f"{scale}, so {condition.limit:g} decides nothing"
    asked = (condition.sign, condition.limit)
    if asked in {(">=", low), ("<=", high)}:
        return f"{scale}, so this always holds"
    if asked in {(">", high), ("<", low)}:
        return f"{scale}, so this never holds"
    # An interval has a width, so its unfavourable end never reaches the favourable end of the scale.
    is_lower = condition.figure == "low" or (condition.surely and condition.sign in {">", ">="})
    is_upper = condition.figure == "high" or (condition.surely and condition.sign in {"<", "<="})
    if (is_lower and asked == (">=", high)) or (is_upper and asked == ("<=", low)):
        return f"{scale}, and no number of trials makes its interval end there, so this never holds"
    return ""


def _refusal(condition: Condition, told: str) -> InputError:
    return InputError(OPTION, f"{condition.text!r}: {told}")


def _describe_reach(reach: float | None) -> str:
    return "has no declared bounds" if reach is None else f"spans {reach:g}"


def _describe_scale(scale: Ends) -> str:
    low, high = scale
    return "has no declared bounds" if low is None or high is None else f"goes from {low:g} to {high:g}"


def _describe_ends(ends: Ends) -> str:
    low, high = ends
    if low is not None and high is not None:
        return f"lies between {low:g} and {high:g}"
    return f"is never less than {low:g}" if high is None else f"is never more than {high:g}"


def _suggest_limit(condition: FigureCondition, ends: Ends) -> str:
    low, high = ends
    if low is None or high is None:
        return ""
    return f", such as {1 if condition.figure in _COUNTS else low + _LIMIT * (high - low):g}"


def _suggest(reach: float | None) -> str:
    return "" if reach is None else f", such as {_EXAMPLE * reach:g}"
