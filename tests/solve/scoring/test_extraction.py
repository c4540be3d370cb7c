"""Answers are read as Inspect reads them: the same texts go through its own functions and through ours."""

import asyncio
import json
import random
import re
from collections.abc import Coroutine, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from labrunner.solve.library.scorers import answer, choice, exact, includes, match, pattern
from labrunner.solve.scoring.extraction import read_choices, read_grade
from labrunner.solve.scoring.numerals import read_number
from labrunner.solve.values.messages import ModelOutput
from labrunner.solve.values.sample import Choices, Target
from labrunner.solve.values.state import TaskState

LABELS = "ABCD"
SAID = json.loads(Path(__file__).with_name("said.json").read_bytes())


def corpus(count: int) -> Iterator[str]:
    """What models write, and many texts put together from pieces of that, always the same."""
    yield from SAID["written"]
    dice = random.Random(20260101)
    for _ in range(count):
        head = dice.choice(["", "ANSWER: ", "I think so.\nANSWER: "])
        yield head + "".join(dice.choice(SAID["pieces"]) for _ in range(dice.randint(1, 8)))


def finish(work: Coroutine[Any, Any, Any]) -> Any:
    """What a scorer that waits for nobody returns: a loop for each would take minutes."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for somebody")


def theirs_of(completion: str, choices: list[str] | None = None) -> Any:
    from inspect_ai.model import ModelOutput as TheirOutput
    from inspect_ai.solver import TaskState as TheirState

    output = TheirOutput.from_content("m", completion)
    return TheirState("m", "1", 1, "q", [], choices=choices or [], output=output)  # type: ignore[arg-type]


def ours_of(completion: str, choices: list[str] | None = None) -> TaskState:
    state = TaskState(model="m", sample_id="1", epoch=1, input="q", messages=[])
    state.output = ModelOutput.from_content("m", completion)
    state.choices = Choices.of(choices)
    return state


@pytest.mark.parametrize("several", [False, True])
def test_choices_are_read_as_inspect_reads_them(several: bool) -> None:
    from inspect_ai.solver._multiple_choice import parse_answers

    choices = ["w", "x", "y", "z"]
    found = 0
    for text in corpus(2000):
        theirs = parse_answers(theirs_of(text, choices), several)
        assert read_choices(text, LABELS, several=several) == theirs, text
        found += bool(theirs)
    assert found > 50


def test_a_sentence_behind_the_answer_names_no_further_choices() -> None:
    assert read_choices("ANSWER: C. A dog and a cat", LABELS, several=True) == {"C"}


@pytest.mark.parametrize("kind", ["letter", "word", "line"])
def test_what_stands_behind_answer_is_read_as_inspect_reads_it(kind: Any) -> None:
    from inspect_ai.scorer import answer as their_answer

    targets = ["B", "yes", "forty two", "right", "42"]
    for text in corpus(600):
        if kind == "line" and text.rstrip() != text.rstrip("\n"):
            continue  # spaces behind an answer are no part of it here
        assert _agree(answer(kind), their_answer(kind), text, targets), text


@pytest.mark.parametrize("location", ["begin", "end", "any", "exact"])
@pytest.mark.parametrize("numeric", [False, True])
def test_texts_and_numbers_match_as_in_inspect(location: Any, numeric: bool) -> None:
    from inspect_ai.scorer import match as their_match

    ours, theirs = match(location, numeric=numeric), their_match(location, numeric=numeric)
    for said in SAID["sentences"]:
        for target in SAID["sentences"]:
            if numeric and read_number(target) is None and re.search(r"[$,*_.]", target):
                continue  # a text is compared as it is, with `numeric` too
            assert _agree(ours, theirs, said, [target]), (said, target)


def test_texts_are_exact_as_in_inspect_but_for_signs_and_lone_articles() -> None:
    from inspect_ai.scorer import exact as their_exact

    different = {"-5", "\N{MINUS SIGN}5", "a", "the", "an answer: the", "2.5", "9"}
    ours, theirs = exact(), their_exact()
    for said in SAID["sentences"]:
        for target in SAID["sentences"]:
            if not {said, target} & different:
                assert _agree(ours, theirs, said, [target]), (said, target)
    assert _value(ours, "New-York", ["New York"]) == "C"
    assert _value(ours, "5", ["-5"]) == "I"
    assert _value(ours, "a", ["A"]) == "C"


def test_texts_include_targets_as_in_inspect() -> None:
    from inspect_ai.scorer import includes as their_includes

    for said in SAID["sentences"]:
        for target in SAID["sentences"]:
            assert _agree(includes(), their_includes(), said, [target])


@pytest.mark.parametrize("expression", [r"ANSWER: (\w+)", r"\d+", r"(\w) or (\w)", r"(\d*)", r"(x)?(\d+)?"])
@pytest.mark.parametrize("match_all", [False, True])
def test_patterns_find_answers_as_in_inspect(expression: str, match_all: bool) -> None:
    from inspect_ai.scorer import pattern as their_pattern

    ours, theirs = pattern(expression, match_all=match_all), their_pattern(expression, match_all=match_all)
    for said in ("a or b", "b or b", "ANSWER: yes", "answer: NO", "42", "it is 42", "x5", "", "none"):
        for targets in (["b"], ["a", "b"], ["yes"], ["no"], ["42"], ["5", "x"], [""]):
            assert _agree(ours, theirs, said, targets, with_answer=True), (said, targets)


@pytest.mark.parametrize("count", [4, 30])
def test_choices_are_scored_as_in_inspect(count: int) -> None:
    from inspect_ai.scorer import Target as TheirTarget
    from inspect_ai.scorer import choice as their_choice

    choices = [f"choice {number}" for number in range(count)]
    labels = [*"ABCD", "1", "4"] if count > 26 else [*"ABCD"]
    targets = (["A"], ["b"], ["AC"], ["A", "C"], ["A,C"], ["A C"], *([each] for each in labels))
    for target, chosen, said in product(targets, ([], [0], [1], [0, 2], [26], [29]), ("", "ANSWER: x")):
        theirs, ours = theirs_of(said, choices), ours_of(said, choices)
        for index in (each for each in chosen if each < count):
            theirs.choices.mark_choice(index, True)
            ours.choices.mark_choice(index, True)
        wanted = finish(their_choice()(theirs, TheirTarget(target)))
        got = finish(choice()(ours, Target(target)))
        assert (got.value, got.answer) == (wanted.value, wanted.answer), (target, chosen, said)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("partial_credit", [False, True])
@pytest.mark.parametrize("instructions", [None, "End with GRADE: and a letter."])
def test_grades_are_read_as_inspect_reads_them(partial_credit: bool, instructions: str | None) -> None:
    from inspect_ai.model import get_model
    from inspect_ai.scorer import Target as TheirTarget
    from inspect_ai.scorer import model_graded_qa

    offered = None if instructions else "CPI" if partial_credit else "CI"
    for said in SAID["graded"]:
        model = get_model("mockllm/model", custom_outputs=[_their_output(said)])
        judge = model_graded_qa(instructions=instructions, partial_credit=partial_credit, model=model)
        score: Any = asyncio.run(judge(theirs_of("x"), TheirTarget("y")))
        wanted = score.value if score.value in {"C", "P", "I"} else None
        assert read_grade(said, offered) == wanted, said


def _their_output(text: str) -> Any:
    from inspect_ai.model import ModelOutput as TheirOutput
    from inspect_ai.model import ModelUsage

    output = TheirOutput.from_content("mockllm", text)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def _agree(ours: Any, theirs: Any, said: str, targets: list[str], *, with_answer: bool = False) -> bool:
    from inspect_ai.scorer import Target as TheirTarget

    wanted = finish(theirs(theirs_of(said), TheirTarget(targets)))
    got = finish(ours(ours_of(said), Target(targets)))
    is_same = bool(got.value == wanted.value)
    return is_same and (not with_answer or got.answer == wanted.answer)


def _value(judge: Any, said: str, targets: list[str]) -> Any:
    return finish(judge(ours_of(said), Target(targets))).value
