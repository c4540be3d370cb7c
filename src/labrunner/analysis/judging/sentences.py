"""What a comparison found, in a sentence that answers both questions and can't be read as more than it is."""

from labrunner.analysis.comparing.comparison import Comparison, find
from labrunner.analysis.comparing.questions import FEWEST_DIFFERING, FEWEST_UNITS
from labrunner.analysis.describing.variance import ALPHA
from labrunner.analysis.inference.interval import LEVEL


def describe(comparison: Comparison) -> str:
    """Both answers."""
    if comparison.here is None:
        return "No task is graded on both sides."
    parts = [_describe_here(comparison), _describe_others(comparison)]
    if comparison.conclusion == "undecided because of errors":
        parts.append("However its errored trials had ended decides it: undecided.")
    return " ".join(parts)


def describe_p(p: float, family: int) -> str:
    """A p-value, and whether it is adjusted."""
    told = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return told if family == 1 else f"{told} after Holm over {family}"


def _describe_here(comparison: Comparison) -> str:
    answer = comparison.here
    assert answer is not None
    count = "this 1 task" if comparison.tasks == 1 else f"these {comparison.tasks:,} tasks"
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
        f"On tasks like these: {answer.difference:+.3f} ({_number(interval.low)} to {_number(interval.high)}"
        f"{level}), {describe_p(answer.p_adjusted, comparison.family)}."
    )
    if answer.p_adjusted < ALPHA or answer.check is None:
        return told
    if answer.check.differing < FEWEST_DIFFERING:
        few = answer.check.differing
        return f"{told} Only {few} {comparison.unit} differ: too few to show anything."
    return told


def _describe_too_few(comparison: Comparison) -> str:
    if comparison.units >= FEWEST_UNITS:
        return "On tasks like these: undefined, for all differences are alike and nothing bounds them."
    return f"Too few {comparison.unit} to speak of others ({comparison.units}; it takes {FEWEST_UNITS})."


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.5g}"
