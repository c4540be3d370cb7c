import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from labrunner.analysis.comparing.comparison import Comparison, compare_all
from labrunner.analysis.comparing.pairing import Arm
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
        (0, "No task differs: too few to show anything of others."),
        (1, "Only 1 task differs: too few to show anything of others."),
        (3, "Only 3 tasks differ: too few to show anything of others."),
    ],
)
def test_too_few_that_differ_are_counted(differing: int, told: str) -> None:
    found = compare(20, 1, lambda n, _: 0.0, lambda n, _: float(n < differing))
    assert describe(found).endswith(told)


def test_what_these_tasks_do_not_show_is_not_shown_of_others() -> None:
    found = compare(9, 3, lambda n, r: float((n + r) % 2), lambda n, r: float((n + r) % 3 > 0))
    assert found.here is not None
    assert found.others is not None
    assert found.here.p == found.others.p > 0.05
    assert found.others.interval.low < 0 < found.others.interval.high
    assert found.conclusion == "no difference shown"
    # The second test alone would have shown it.
    assert found.others.check is not None
    assert found.others.check.value < 0.05


def test_with_one_trial_a_task_both_questions_have_one_answer() -> None:
    found = compare(8, 1, lambda n, _: 0.0, lambda n, _: float(n < 4))
    assert found.here is not None
    assert found.others is not None
    assert found.here.p == found.others.p < 0.05
    assert found.conclusion == "better"
    assert describe(found).startswith("On these 8 tasks b is better than a (p = 0.")


GRID = list(product((1, 2, 5, 6, 7, 8, 12), (1, 2, 3), (-0.6, -0.3, 0.0, 0.3, 0.6)))


@pytest.mark.parametrize("kind", ["rate", "share", "seconds", "three"])
def test_heading_and_sentences_agree_whatever_tasks_trials_and_effect(kind: str) -> None:
    chance = np.random.default_rng(8)
    for tasks, trials, effect in GRID:
        for _ in range(4):
            found = draw(kind, tasks, trials, effect, chance)
            for one in compare_all([(found[0], other) for other in found[1:]]):
                check_words(one, describe(one))


def draw(kind: str, tasks: int, trials: int, effect: float, chance: np.random.Generator) -> list[Arm]:
    declared = {"share": SHARE, "seconds": DeclaredMetric(name="seconds", better="lower")}.get(kind)
    arms = []
    for name, shift in zip("abc" if kind == "three" else "ab", (0.0, effect, effect / 2), strict=False):
        rates = np.clip(chance.uniform(0.3, 0.7, tasks) + shift, 0, 1)
        scores = {
            f"t{n}": (
                (chance.random(trials) < rate).astype(float)
                if declared is None
                else np.clip(rate + chance.normal(0, 0.2, trials), 0, 1)
            ).tolist()
            for n, rate in enumerate(rates)
        }
        arms.append(make_arm(name, scores, declared=declared, metric=declared.name if declared else "pass"))
    return arms


def check_words(found: Comparison, told: str) -> None:
    """What a reader takes from the sentence is what the heading says."""
    on_these = re.match(r"On .*? (?:(b|c) is (better|worse) than a|no difference between)", told)
    assert on_these or "undefined" in told, told
    here = on_these[2] if on_these else None
    on_others = re.search(r"(b|c) minus a in .*?: \S+ \(\S+ interval (\S+) to (\S+)\)", told)
    if on_others is None:
        assert found.conclusion in {"too few tasks", "not enough data"}, (found.conclusion, told)
        return
    low, high = float(on_others[2]), float(on_others[3])
    shown = None if low <= 0 <= high else "worse" if (low > 0) == found.is_lower_better else "better"
    assert found.conclusion == (shown or "no difference shown"), told
    assert shown in {None, here}, told


def test_the_sentence_names_both_variants_the_measure_and_its_direction() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    found = compare(8, 2, lambda n, r: 9.0 + n / 10 + r, lambda n, r: 5.0 + n / 7 + r, seconds)
    told = describe(found)
    assert told.startswith("On these 8 tasks b is better than a (p < 0.001).")
    assert "On tasks like these, b minus a in mean `seconds`, lower is better: -3.850 (95% interval -" in told


def test_a_small_difference_that_is_shown_is_not_written_as_none() -> None:
    found = compare(8, 1, lambda n, _: 0.5, lambda n, _: 0.5001 + 0.00001 * (n * 3 % 5), SHARE)
    assert found.conclusion == "better"
    assert "b minus a in mean `share`: +0.00012 (95% interval 0.00011 to 0.00013), p < 0.001." in describe(
        found
    )


def test_scores_all_alike_on_an_open_scale_tell_nothing_of_these_tasks_either() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    found = compare(8, 2, lambda n, _: 3.0, lambda n, _: 3.0, seconds)
    assert found.here is None
    told = describe(found)
    assert told.startswith("On these 8 tasks: undefined, for all scores are alike and nothing bounds them.")
