"""What a comparison found, in a sentence that answers both questions and can't be read as more than it is.

Rules: both variants are named, and so is what differs, in which direction, and how sure an interval is. No
part contradicts the conclusion: `labrunner.analysis.comparing.questions` sees to the answers, and what errors
leave undecided is said to be so.
"""

from labrunner.analysis.comparing.answer import Answer, Span
from labrunner.analysis.comparing.comparison import (
    Comparison,
    find,
    is_conclusion_safe_from_retries,
    is_out_of_reach,
)
from labrunner.analysis.comparing.questions import FEWEST_DIFFERING, FEWEST_UNITS
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.describing.variance import ALPHA
from labrunner.analysis.judging.numbers import write_change, write_number
from labrunner.analysis.sums.measure import PASS


def describe(comparison: Comparison) -> str:
    """Both answers."""
    if comparison.here is None and not comparison.tasks:
        return f"No task is graded for both {comparison.other} and {comparison.baseline}."
    parts = [_describe_here(comparison), _describe_others(comparison)]
    if comparison.conclusion == "undecided because of errors":
        parts.append("How errored trials would have ended decides it: undecided.")
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


def describe_p(p: float, family: int) -> str:
    """A p-value, and whether it is adjusted."""
    told = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return told if family == 1 else f"{told} after Holm over {family}"


def describe_difference(comparison: Comparison, difference: float, interval: Span) -> str:
    """Whose mean of what less whose, and between which ends: `v2 minus v1 in pass rate +0.417 (...)`."""
    what = name_measure(comparison.measure)
    lower = ", lower is better" if comparison.is_lower_better else ""
    ends = f"{write_number(interval.low)} to {write_number(interval.high)}"
    return (
        f"{comparison.other} minus {comparison.baseline} in {what}{lower}: {write_change(difference)} "
        f"({describe_level(interval.level)} interval {ends})"
    )


def name_measure(measure: str) -> str:
    """What a mean is of, in words."""
    return "pass rate" if measure == PASS else f"mean `{measure}`"


def describe_level(level: float) -> str:
    """How sure an interval is: `95%`, `98.3%`."""
    return f"{100 * level:.3g}%"


def _describe_here(comparison: Comparison) -> str:
    answer = comparison.here
    count = "this 1 task" if comparison.tasks == 1 else f"these {comparison.tasks:,} tasks"
    if answer is None:
        return f"On {count}: undefined, for {_why_undefined(comparison)}."
    found = find(answer.difference, answer.p_adjusted, is_lower_better=comparison.is_lower_better)
    told = describe_p(answer.p_adjusted, comparison.family)
    if found == "no difference shown":
        sides = f"{comparison.other} and {comparison.baseline}"
        return f"On {count} no difference between {sides} is shown ({told})."
    return f"On {count} {comparison.other} is {found} than {comparison.baseline} ({told})."


def _why_undefined(comparison: Comparison) -> str:
    if comparison.difference:
        return "one trial on each side tells nothing of luck"
    return "all scores are alike and nothing bounds them"


def _describe_others(comparison: Comparison) -> str:
    answer = comparison.others
    if answer is None:
        return _describe_too_few(comparison)
    told = describe_difference(comparison, answer.difference, answer.interval)
    p = describe_p(answer.p_adjusted, comparison.family)
    return f"On tasks like these, {told}, {p}.{_describe_few(comparison, answer)}"


def _describe_few(comparison: Comparison, answer: Answer) -> str:
    """Why nothing is shown where hardly any unit differs, or where there are hardly any."""
    check, unit = answer.check, comparison.unit
    if answer.p_adjusted < ALPHA or check is None:
        return ""
    if is_out_of_reach(answer, comparison.family):
        asked = f"any of {comparison.family} comparisons of others"
        return f" {comparison.units} {unit} are too few to show {asked}, even if all favour one side."
    if check.differing >= FEWEST_DIFFERING:
        return ""
    differing = check.differing
    if differing > 1:
        told = f"Only {differing} {unit} differ"
    else:
        told = f"{'Only 1' if differing else 'No'} {unit.removesuffix('s')} differs"
    return f" {told}: too few to show anything of others."


def _describe_too_few(comparison: Comparison) -> str:
    if comparison.units >= FEWEST_UNITS:
        return "On tasks like these: undefined, for all differences are alike and nothing bounds them."
    return f"Too few {comparison.unit} to speak of others ({comparison.units}; it takes {FEWEST_UNITS})."


def describe_few_units(units: int, unit: str) -> str:
    """That so many tasks or groups do not speak of others, and what does."""
    counted = f"{unit.removesuffix('s')} is" if units == 1 else f"{unit} are"
    return (
        f"{units} {counted} too few to speak of others, it takes {FEWEST_UNITS} "
        "(`population: these_tasks` asks about these only)"
    )


def why_no_interval(figures: Figures) -> str:
    """Why a mean has none."""
    if not figures.graded:
        return "no trial is graded"
    if figures.population == "these_tasks":
        return "trials of a task do not differ, or there is only one of each"
    if figures.tasks == 1:
        return describe_few_units(1, "tasks")
    return "all scores are alike, or all tasks are of one group"
