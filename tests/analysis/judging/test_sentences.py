from collections.abc import Callable

import pytest

from labrunner.analysis.comparing.comparison import Comparison, compare_all
from labrunner.analysis.judging.sentences import describe
from labrunner.experiment.resolved import DeclaredMetric
from tests.kit.analysis.arms import make_arm

SHARE = DeclaredMetric(name="share", min=0.0, max=1.0)
SCORE = Callable[[int, int], float]


def compare(
    tasks: int, trials: int, before: SCORE, after: SCORE, declared: DeclaredMetric | None = None
) -> Comparison:
    metric = declared.name if declared else "solved"
    arms = [
        make_arm(
            name,
            {f"t{n}": [score(n, r) for r in range(trials)] for n in range(tasks)},
            declared=declared,
            metric=metric,
        )
        for name, score in (("a", before), ("b", after))
    ]
    (found,) = compare_all([(arms[0], arms[1])])
    return found


@pytest.mark.parametrize(
    ("differing", "told"),
    [
        (0, "No task differs: too few to show anything."),
        (1, "Only 1 task differs: too few to show anything."),
        (3, "Only 3 tasks differ: too few to show anything."),
    ],
)
def test_too_few_that_differ_are_counted(differing: int, told: str) -> None:
    found = compare(20, 1, lambda n, _: 0.0, lambda n, _: float(n < differing))
    assert describe(found).endswith(told)


def test_a_difference_shown_of_others_but_not_of_these_is_told_to_be_odd() -> None:
    found = compare(12, 3, lambda n, r: float((n + r) % 2), lambda n, r: float((n + r) % 3 > 0))
    assert found.here is not None
    assert found.others is not None
    assert found.others.p < 0.05 < found.here.p
    odd = "What these tasks do not show can hardly be said of others: run more trials of each."
    assert describe(found).endswith(odd)
    plain = compare(12, 5, lambda n, _: float(n < 4), lambda n, _: float(n < 9))
    assert odd not in describe(plain)


def test_a_small_difference_that_is_shown_is_not_written_as_none() -> None:
    found = compare(8, 1, lambda n, _: 0.5, lambda n, _: 0.5001 + 0.00001 * (n * 3 % 5), SHARE)
    assert found.conclusion == "better"
    assert "On tasks like these: +0.00012 (0.00011 to 0.00013), p < 0.001." in describe(found)


def test_scores_all_alike_on_an_open_scale_tell_nothing_of_these_tasks_either() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    found = compare(8, 2, lambda n, _: 3.0, lambda n, _: 3.0, seconds)
    assert found.here is None
    told = describe(found)
    assert told.startswith("On these 8 tasks: undefined, for all scores are alike and nothing bounds them.")
