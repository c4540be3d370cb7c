import asyncio
from typing import Any

import pytest

from labrunner.errors import InputError
from labrunner.solve.authoring.scorer import Judge, as_judges, scorer
from labrunner.solve.library.scorers import answer, choice, exact, includes, match, pattern
from labrunner.solve.scoring.extraction import read_choices
from labrunner.solve.scoring.metrics import Epochs, accuracy, find_reducer, mean, std, stderr, var
from labrunner.solve.values.messages import ModelOutput
from labrunner.solve.values.sample import Choices, Target
from labrunner.solve.values.score import value_to_float
from labrunner.solve.values.state import TaskState


def state_of(completion: str, choices: list[str] | None = None, chosen: str = "") -> TaskState:
    state = TaskState(model="m", sample_id="1", epoch=1, input="q", messages=[])
    state.output = ModelOutput.from_content("m", completion)
    state.choices = Choices.of(choices)
    for letter in chosen:
        state.choices.mark_choice("ABCDEF".index(letter), True)
    return state


def value(judge: Judge, state: TaskState, *target: str) -> Any:
    return asyncio.run(judge(state, Target(list(target)))).value


@pytest.mark.parametrize(
    ("judge", "completion", "target", "expected"),
    [
        (includes(), "The FLAG is here", "flag", "C"),
        (includes(ignore_case=False), "The FLAG is here", "flag", "I"),
        (match(), "the answer is 42.", "42", "C"),
        (match(), "42 is the answer", "42", "I"),
        (match("begin"), "42 is the answer", "42", "C"),
        (match("any"), "it is 42, I think", "42", "C"),
        (match("exact"), "(42)", "42", "C"),
        (match(numeric=True), "it costs $1,000.50", "1000.5", "C"),
        (match(numeric=True), "it costs 3.", "3", "C"),
        (match(numeric=True), "it is 3 dollars", "3", "C"),
        (match(numeric=True), "3, not 4", "3", "I"),
        (match("begin", numeric=True), "3, not 4", "3", "C"),
        (match("any", numeric=True), "3, not 4", "4.0", "C"),
        (match("exact", numeric=True), "3.0", "3", "C"),
        (match("exact", numeric=True), "(3.0)", "3", "I"),
        (match("exact", numeric=True), "3 or so", "3", "I"),
        (match(numeric=True), "15", "5", "I"),
        (match(numeric=True), "5", "-5", "I"),
        (match(numeric=True), "x=-5", "-5", "I"),
        (match(numeric=True), "x = -5", "-5", "C"),
        (match(numeric=True), "-$5", "\N{MINUS SIGN}5", "C"),
        (match(numeric=True), "0.5", "5", "I"),
        (match(numeric=True), "1234568", "1234567", "I"),
        (match(numeric=True), "12345678901234567891", "12345678901234567890", "I"),
        (match(numeric=True), "1e3", "1000", "C"),
        (match(numeric=True), "from 3-5", "5", "I"),
        (match(numeric=True), "60%", "60", "I"),
        (match(numeric=True), "it is Paris", "Paris", "C"),
        (match(numeric=True), "no idea", "3", "I"),
        (exact(), "4.2", "42", "I"),
        (exact(), "5", "-5", "I"),
        (exact(), "42.0", "42", "C"),
        (exact(), "1,000 $", "1000", "C"),
        (exact(), "1e999999999", "1", "I"),
        (exact(), "", "A", "I"),
        (exact(), "the", "A", "I"),
        (exact(), "a", "A", "C"),
        (exact(), "New-York", "New York", "C"),
        (exact(), "The  Answer!", "answer", "C"),
        (exact(), "answers", "answer", "I"),
        (pattern(r"ANSWER: (\w+)"), "so ANSWER: yes", "YES", "C"),
        (pattern(r"ANSWER: (\w+)", ignore_case=False), "so ANSWER: yes", "YES", "I"),
        (pattern(r"ANSWER: (\w+)"), "no idea", "yes", "I"),
        (pattern(r"\d+"), "it is 42", "42", "C"),
        (pattern(r"(\w) or (\w)"), "a or b", "b", "C"),
        (pattern(r"(\w) or (\w)", match_all=True), "a or b", "b", "I"),
        (answer("line"), "hm\nANSWER: forty two \n", "forty two", "C"),
        (answer("word"), "Answer: wrong\nANSWER: right!", "right", "C"),
        (answer("letter"), "ANSWER: B", "B", "C"),
        (answer("letter"), "ANSWER: Bee", "B", "I"),
    ],
)
def test_texts_are_compared(judge: Judge, completion: str, target: str, expected: str) -> None:
    assert value(judge, state_of(completion), target) == expected


def test_one_of_several_targets_is_enough() -> None:
    assert value(includes(), state_of("it is b"), "a", "b") == "C"


@pytest.mark.parametrize(
    ("chosen", "target", "expected"),
    [("B", ["B"], "C"), ("A", ["B"], "I"), ("", ["B"], "N"), ("AB", ["A", "B"], "C"), ("AB", ["A"], "I")],
)
def test_choices_are_right_when_they_are_those_of_the_target(
    chosen: str, target: list[str], expected: str
) -> None:
    assert value(choice(), state_of("", ["one", "two", "three"], chosen), *target) == expected


def test_a_choice_may_be_named_by_its_text() -> None:
    assert value(choice(), state_of("", ["one", "two"], "B"), "two") == "C"


def test_a_letter_means_the_choice_of_that_letter_though_another_has_it_as_its_text() -> None:
    assert value(choice(), state_of("", ["B", "A"], "A"), "A") == "C"


def test_a_target_that_names_no_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="target 'D' of sample 1 names no choice of the 2 that there are"):
        value(choice(), state_of("", ["one", "two"], "A"), "D")


def test_shuffled_choices_are_judged_by_where_they_stood() -> None:
    state = state_of("", ["one", "two", "three"])
    state.choices.choices.reverse()
    state.choices.mark_choice(0, True)
    assert value(choice(), state, "C") == "C"


@pytest.mark.parametrize(
    ("said", "several", "expected"),
    [
        ("ANSWER: B", False, {"B"}),
        ("answer: (b)", False, {"B"}),
        ("I say ANSWER: A\nno: ANSWER: C", False, {"C"}),
        ("thinking\nANSWER: C.", False, {"C"}),
        ("B", False, set()),
        ("Both are fine", False, set()),
        ("ANSWER: A, C", True, {"A", "C"}),
        ("ANSWER: AC", True, {"A", "C"}),
        ("ANSWER: A, C", False, set()),
        ("ANSWER: Z", False, set()),
        ("ANSWER: C) A cat", False, {"C"}),
        ("ANSWER: C. A cat", False, {"C"}),
        ("ANSWER: C. A dog and a cat", True, {"C"}),
        ("ANSWER: Z. A cat", False, set()),
        ("**ANSWER: B**", False, {"B"}),
        ("ANSWER: B because A is wrong", False, set()),
        ("So the ANSWER: B", False, {"B"}),
        ("ANSWER: Paris", True, set()),
    ],
)
def test_letters_are_read_from_an_answer(said: str, several: bool, expected: set[str]) -> None:
    assert read_choices(said, "ABC", several=several) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("C", 1.0),
        ("I", 0.0),
        ("P", 0.5),
        ("N", 0.0),
        (True, 1.0),
        (3, 3.0),
        ("0.25", 0.25),
        ("yes", 1.0),
        ("No", 0),
    ],
)
def test_values_are_numbers(given: Any, expected: float) -> None:
    assert value_to_float(given) == expected


def test_figures_over_samples() -> None:
    scores = [0.0, 1.0, 1.0, 1.0]
    assert accuracy()(scores) == mean()(scores) == 0.75
    assert std()(scores) == pytest.approx(0.5)
    assert var()(scores) == pytest.approx(0.25)
    assert stderr()(scores) == pytest.approx(0.25)
    assert (std()([1.0]), stderr()([1.0])) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "scores", "expected"),
    [
        ("mean", [0, 1], 0.5),
        ("median", [0, 1, 1], 1),
        ("mode", [0, 1, 0], 0),
        ("max", [0, 1], 1),
        ("at_least_2", [1, 0, 1], 1),
        ("at_least_2", [1, 0, 0], 0),
        ("pass_at_1", [1, 0, 0, 0], 0.25),
        ("pass_at_2", [1, 0, 0, 0], 0.5),
        ("pass_at_4", [1, 0, 0, 0], 1.0),
        ("pass_at_2", [0, 0], 0.0),
    ],
)
def test_epochs_are_reduced(name: str, scores: list[float], expected: float) -> None:
    assert find_reducer(name)(scores) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["pass_at_2", "at_least_2"])
@pytest.mark.parametrize("score", [0.0, 1.0])
def test_what_missing_epochs_would_have_said_is_not_guessed(name: str, score: float) -> None:
    assert find_reducer(name)([score]) is None


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (0, "mean"),
        (2, "best"),
        (2, "at_least_0"),
        (2, "pass_at_x"),
        (2, "pass_at_3"),
        (2, []),
        (2, ["mean", "best"]),
    ],
)
def test_epochs_that_mean_nothing_are_refused(count: int, name: str | list[str]) -> None:
    with pytest.raises(InputError, match="epochs"):
        Epochs(count, name)


def test_a_scorer_without_brackets_is_told_how_to_write_it() -> None:
    with pytest.raises(TypeError, match="with brackets"):

        @scorer  # type: ignore[arg-type] # on purpose
        def bare() -> None: ...


@pytest.mark.parametrize("metrics", [[accuracy], ["accuracy"], {"part": [mean]}])
def test_what_is_no_metric_is_refused_where_it_is_written(metrics: Any) -> None:
    with pytest.raises(TypeError, match=r"a metric is what accuracy\(\)"):
        scorer(metrics=metrics)


def test_scorers_of_one_name_are_told_apart() -> None:
    assert [judge.name for judge in as_judges([includes(), match(), includes(), includes()])] == [
        "includes",
        "match",
        "includes1",
        "includes2",
    ]


def test_a_scorer_that_returns_no_function_is_refused() -> None:
    @scorer(metrics=[accuracy()])
    def forgetful() -> None:
        return None

    with pytest.raises(TypeError, match="@scorer forgetful must return a function of state and target"):
        forgetful()
