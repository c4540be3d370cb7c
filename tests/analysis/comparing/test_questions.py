"""More evidence never makes an answer less sure, and these tasks are never told less exactly than others."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from labrunner.analysis.comparing.comparison import compare_all
from labrunner.analysis.comparing.pairing import Arm, PairedTask, Scored
from labrunner.analysis.comparing.questions import ask_both, ask_others, fill
from labrunner.analysis.judging.sentences import describe
from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell
from tests.kit.analysis.arms import make_arm

RATE = Measure(name="pass", is_rate=True, low=0.0, high=1.0)
LEVELS = (0.95, 0.975, 0.99)
TASKS = (6, 7, 8, 10, 12, 13, 20, 30)


def score(steps: Sequence[int], trials: int = 1, groups: Sequence[str | None] | None = None) -> list[Scored]:
    """Tasks of so many trials a side, on which the other side passes so many more."""
    sides = [
        [Cell(graded=trials, passed=passed, total=passed) for passed in passes]
        for passes in ([max(0, -step) for step in steps], [max(0, step) for step in steps])
    ]
    named = groups or [None] * len(steps)
    return [
        (PairedTask(task_id=str(n), group=group, baseline=a, other=b), step / trials)
        for n, (a, b, step, group) in enumerate(zip(*sides, steps, named, strict=True))
    ]


def lower_ends(tasks: int, level: float) -> dict[tuple[int, int], float]:
    """By how many of these tasks, of one trial each, are better, and how many worse."""
    found = {}
    for up in range(tasks + 1):
        for down in range(tasks - up + 1):
            answer = ask_others(score([1] * up + [-1] * down + [0] * (tasks - up - down)), RATE)
            assert answer is not None
            found[up, down] = answer.span(level, 1.0).low
    return found


def one_better(ends: dict[tuple[int, int], float]) -> Iterator[tuple[tuple[int, int], float, float]]:
    """Each outcome, its lower end, and that with one task more in favour."""
    for (up, down), low in ends.items():
        for more in ((up + 1, down), (up, down - 1)):
            if more in ends:
                yield (up, down), low, ends[more]


@pytest.mark.parametrize("tasks", TASKS)
def test_one_task_more_in_favour_never_makes_what_is_shown_less_sure(tasks: int) -> None:
    for level in LEVELS:
        for outcome, low, more in one_better(lower_ends(tasks, level)):
            assert low <= 0 or more >= low, (outcome, level)


@pytest.mark.parametrize("tasks", TASKS)
def test_of_a_variant_that_is_not_behind_one_task_more_in_favour_never_lowers_the_end(tasks: int) -> None:
    for (up, down), low, more in one_better(lower_ends(tasks, 0.95)):
        assert up < down or not up or more >= low, (up, down)


@pytest.mark.parametrize("trials", [2, 3, 5])
def test_nor_does_a_task_more_where_all_that_differ_do_so_alike(trials: int) -> None:
    for tasks in (6, 8, 12, 20):
        for step in range(1, trials + 1):
            ends = []
            for up in range(1, tasks + 1):
                answer = ask_others(score([step] * up + [0] * (tasks - up), trials), RATE)
                assert answer is not None
                ends.append(answer.interval.low)
            assert ends == sorted(ends)


def test_a_clean_sweep_is_told_as_the_binomial_tells_it() -> None:
    answer = ask_others(score([1] * 12), RATE)
    assert answer is not None
    # Twelve of twelve that favour one side are 1 in 40 where 73.5% of all do.
    assert answer.interval.low == pytest.approx(2 * 0.025 ** (1 / 12) - 1)
    assert answer.p == 2.0**-11


def test_no_p_of_rates_is_smaller_than_that_of_a_clean_sweep_whatever_the_spread() -> None:
    almost = ask_others(score([1] * 11 + [0]), RATE)
    spread = ask_others(score([5, 4, 5, 3, 5, 4, 5, 5, 4, 5, 3, 5], 5), RATE)
    for answer in (almost, spread):
        assert answer is not None
        assert (answer.p, answer.method) == (2.0**-11, "sign-flip over tasks")


def test_where_even_a_sweep_is_no_rarer_than_the_level_zero_is_within_and_more_never_lowers_the_end() -> None:
    ends = []
    for up in range(1, 7):
        answer = ask_others(score([1] * up + [0] * (6 - up)), RATE)
        assert answer is not None
        ends.append(round(answer.span(1 - 0.05 / 5, 1.0).low, 12))
    assert ends[-1] < 0
    assert ends == sorted(ends)


def test_with_single_trials_both_questions_have_the_same_answer() -> None:
    chance = np.random.default_rng(5)
    for _ in range(60):
        scored = score(chance.integers(-1, 2, int(chance.integers(6, 25))).tolist())
        here, others = ask_both([fill(task, RATE) for task, _ in scored], scored, RATE)
        assert here is not None
        assert here == others


@pytest.mark.parametrize("trials", [1, 2, 3])
def test_these_tasks_are_never_told_with_a_wider_interval_than_others(trials: int) -> None:
    chance = np.random.default_rng(trials)
    for _ in range(80):
        tasks = int(chance.integers(6, 20))
        a, b = chance.binomial(trials, chance.random((2, tasks)))
        groups = [f"g{n % 7}" for n in range(tasks)] if tasks > 12 else None
        scored = score((b - a).tolist(), trials, groups)
        here, others = ask_both([fill(task, RATE) for task, _ in scored], scored, RATE)
        if here is not None and others is not None and others.p < 0.5:
            assert here.p <= others.p
            assert here.half(0.95, 1.0) <= others.half(0.95, 1.0) + 1e-12


def sweep(tasks: int, names: str) -> list[Arm]:
    """Arms of single trials: the first solves nothing, the others everything."""
    return [make_arm(name, {f"t{n}": [float(name != "a")] for n in range(tasks)}) for name in names]


def test_five_of_five_single_trials_are_no_rarer_than_1_in_16_on_these_tasks_either() -> None:
    a, b = sweep(5, "ab")
    (found,) = compare_all([(a, b)])
    assert describe(found) == (
        "On these 5 tasks no difference between b and a is shown (p = 0.062). "
        "Too few tasks to speak of others (5; it takes 6)."
    )


@pytest.mark.parametrize("tasks", [2, 3, 4, 5])
def test_so_few_single_trials_have_the_p_of_signs_where_all_favour_one_side(tasks: int) -> None:
    a, b = sweep(tasks, "ab")
    (found,) = compare_all([(a, b)])
    assert found.here is not None
    assert found.here.p == 2.0 ** (1 - tasks)
    assert found.here.interval.low < 0


def test_of_two_comparisons_six_tasks_can_show_none_and_it_says_so() -> None:
    a, b, c = sweep(6, "abc")
    first, _ = compare_all([(a, b), (a, c)])
    assert (first.conclusion, first.detectable) == ("no difference shown", None)
    assert describe(first).endswith(
        "6 tasks are too few to show any of 2 comparisons of others, even if all favour one side."
    )
    a, b, c = sweep(7, "abc")
    assert compare_all([(a, b), (a, c)])[0].conclusion == "better"
