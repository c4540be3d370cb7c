"""What a comparison found, in a sentence that answers both questions and can't be read as more than it is.

Rule: where the two answers don't fit each other, or one rests on too little, the sentence says so.
"""

from labrunner.analysis.comparing.comparison import Comparison, find, is_conclusion_safe_from_retries
from labrunner.analysis.comparing.questions import FEWEST_DIFFERING, FEWEST_UNITS
from labrunner.analysis.describing.variance import ALPHA
from labrunner.analysis.inference.interval import LEVEL
from labrunner.analysis.judging.numbers import write_change, write_number


def describe(comparison: Comparison) -> str:
    """Both answers."""
    if comparison.here is None and not comparison.tasks:
        return "No task is graded on both sides."
    parts = [_describe_here(comparison), _describe_others(comparison)]
    if comparison.conclusion == "undecided because of errors":
        parts.append("How errored trials would have ended decides it: undecided.")
    elif _is_odd(comparison):
        parts.append("What these tasks do not show can hardly be said of others: run more trials of each.")
    if comparison.marked:
        parts.append(_describe_marked(comparison))
    if comparison.conclusion in {"better", "worse"} and not is_conclusion_safe_from_retries(comparison):
        parts.append("Retried trials could have turned it: suspect.")
    return " ".join(parts)


def _describe_marked(comparison: Comparison) -> str:
    """Whoever marks failures raises a mean, so it is told what comes out with them."""
    count = "1 trial is" if comparison.marked == 1 else f"{comparison.marked:,} trials are"
    told = f"{count} left out, marked as not to be used"
    if comparison.with_marked is None:
        return f"{told}."
    them = "it" if comparison.marked == 1 else "them"
    return f"{told}; with {them} the difference would be {write_change(comparison.with_marked)}."


def _is_odd(comparison: Comparison) -> bool:
    """Whether a difference is shown of other tasks that luck within these could have made."""
    here, others = comparison.here, comparison.others
    return here is not None and others is not None and others.p_adjusted < ALPHA <= here.p_adjusted


def describe_p(p: float, family: int) -> str:
    """A p-value, and whether it is adjusted."""
    told = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return told if family == 1 else f"{told} after Holm over {family}"


def _describe_here(comparison: Comparison) -> str:
    answer = comparison.here
    count = "this 1 task" if comparison.tasks == 1 else f"these {comparison.tasks:,} tasks"
    if answer is None:
        return f"On {count}: undefined, for all scores are alike and nothing bounds them."
    found = find(answer.difference, answer.p_adjusted, is_lower_better=comparison.is_lower_better)
    told = describe_p(answer.p_adjusted, comparison.family)
    if found == "no difference shown":
        return f"On {count} no difference is shown ({told})."
    return f"On {count} {comparison.other} is {found} ({told})."


def _describe_others(comparison: Comparison) -> str:
    answer = comparison.others
    if answer is None:
        return _describe_too_few(comparison)
    interval = answer.interval
    level = "" if interval.level == LEVEL else f" at {100 * interval.level:.3g}%"
    told = (
        f"On tasks like these: {write_change(answer.difference)} ({write_number(interval.low)} to "
        f"{write_number(interval.high)}{level}), {describe_p(answer.p_adjusted, comparison.family)}."
    )
    if answer.p_adjusted < ALPHA or answer.check is None:
        return told
    if answer.check.differing < FEWEST_DIFFERING:
        return f"{told} {_describe_few(answer.check.differing, comparison.unit)}: too few to show anything."
    return told


def _describe_few(differing: int, unit: str) -> str:
    if differing > 1:
        return f"Only {differing} {unit} differ"
    return f"{'Only 1' if differing else 'No'} {unit.removesuffix('s')} differs"


def _describe_too_few(comparison: Comparison) -> str:
    if comparison.units >= FEWEST_UNITS:
        return "On tasks like these: undefined, for all differences are alike and nothing bounds them."
    return f"Too few {comparison.unit} to speak of others ({comparison.units}; it takes {FEWEST_UNITS})."
