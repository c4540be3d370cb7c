"""The scorers that come with the package, but for those that ask a model."""

import re
import string
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Literal, TypeAlias

from labrunner.solve.metrics import accuracy, stderr
from labrunner.solve.numerals import find_numbers, read_number, write_number
from labrunner.solve.sample import Target
from labrunner.solve.score import CORRECT, INCORRECT, Score
from labrunner.solve.scorer import Scorer, scorer
from labrunner.solve.solvers import read_letters
from labrunner.solve.state import TaskState

Location: TypeAlias = Literal["begin", "end", "any", "exact"]
_LETTERS = string.ascii_uppercase
_ARTICLES = frozenset({"a", "an", "the"})


@scorer(metrics=[accuracy(), stderr()])
def includes(ignore_case: bool = True) -> Scorer:
    """Right when a target stands anywhere in the answer."""

    def fits(answer: str, wanted: str) -> bool:
        return wanted.casefold() in answer.casefold() if ignore_case else wanted in answer

    return _comparing(fits)


@scorer(metrics=[accuracy(), stderr()])
def match(location: Location = "end", *, ignore_case: bool = True, numeric: bool = False) -> Scorer:
    """Right when a target stands at the answer's end (or begin, or anywhere), punctuation apart.

    With `numeric` a target that is a number is compared, by value, with the answer's last one (or its first,
    or any).
    """

    def fits(answer: str, wanted: str) -> bool:
        number = read_number(wanted) if numeric else None
        if number is not None:
            return _has_number(answer, number, location)
        if ignore_case:
            answer, wanted = answer.casefold(), wanted.casefold()
        return _stands(_stripped(answer), _stripped(wanted), location)

    return _comparing(fits)


@scorer(metrics=[accuracy(), stderr()])
def exact() -> Scorer:
    """Right when the answer is a target, but for case, articles, punctuation and how numbers are written."""
    return _comparing(lambda answer, wanted: _normalised(answer) == _normalised(wanted))


@scorer(metrics=[accuracy(), stderr()])
def pattern(pattern: str, *, ignore_case: bool = True, match_all: bool = False) -> Scorer:
    """Right when what a regular expression's group finds in the answer is a target."""
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)

    async def score(state: TaskState, target: Target) -> Score:
        completion = state.output.completion
        found = compiled.search(completion)
        if found is None:
            return Score(INCORRECT, explanation=f"the pattern was not found in: {completion}")
        groups = [group for group in (found.groups() or (found[0],)) if group is not None]
        fits = [_is_among(group, target, ignore_case) for group in groups]
        is_right = bool(fits) and (all(fits) if match_all else any(fits))
        answer = groups[fits.index(True)] if True in fits else groups[0] if groups else None
        return Score(CORRECT if is_right else INCORRECT, answer, completion)

    return score


@scorer(metrics=[accuracy(), stderr()])
def answer(pattern: Literal["letter", "word", "line"]) -> Scorer:
    """Right when what stands after `ANSWER:` is a target."""
    ends = {"letter": r"([A-Za-z])(?![A-Za-z])", "word": r"(\w+)", "line": r"(.+?)\s*$"}
    compiled = re.compile(r"ANSWER\s*:\s*" + ends[pattern], re.IGNORECASE | re.MULTILINE)

    async def score(state: TaskState, target: Target) -> Score:
        found = compiled.findall(state.output.completion)
        said = str(found[-1]).strip() if found else None
        is_right = said is not None and _is_among(said, target, True)
        return Score(CORRECT if is_right else INCORRECT, said, state.output.completion)

    return score


@scorer(metrics=[accuracy(), stderr()])
def choice() -> Scorer:
    """Right when the choices that the model took are those of the target: letters, or their texts."""

    async def score(state: TaskState, target: Target) -> Score:
        taken = {each.original_position for each in state.choices if each.correct}
        wanted = _wanted_positions(state, target)
        said = ", ".join(_LETTERS[position] for position in sorted(taken))
        return Score(CORRECT if taken and taken == wanted else INCORRECT, said, state.output.completion)

    return score


def _wanted_positions(state: TaskState, target: Target) -> set[int]:
    texts = {each.value: each.original_position for each in state.choices}
    letters = _LETTERS[: len(state.choices)]
    wanted: set[int] = set()
    for text in target:
        if text in texts:
            wanted.add(texts[text])
        else:
            wanted |= {letters.index(letter) for letter in read_letters(text, letters, several=True)}
    return wanted


def _comparing(fits: Callable[[str, str], bool]) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        said = state.output.completion
        is_right = any(fits(said, wanted) for wanted in target)
        return Score(CORRECT if is_right else INCORRECT, said.strip(), said)

    return score


def _is_among(found: str, target: Target, ignore_case: bool) -> bool:
    if ignore_case:
        return found.casefold() in {wanted.casefold() for wanted in target}
    return found in target


def _stands(answer: str, wanted: str, location: Location) -> bool:
    match location:
        case "begin":
            return answer.startswith(wanted)
        case "end":
            return answer.endswith(wanted)
        case "exact":
            return answer == wanted
        case _:
            return wanted in answer


def _stripped(text: str) -> str:
    return text.strip().strip(string.punctuation + string.whitespace)


def _has_number(answer: str, number: Decimal, location: Location) -> bool:
    if location == "exact":
        return read_number(answer) == number
    found = list(find_numbers(answer))
    match location:
        case "begin":
            return found[:1] == [number]
        case "end":
            return found[-1:] == [number]
        case _:
            return number in found


def _normalised(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    words = [word for each in plain.split() if (word := _normalised_word(each))]
    kept = [word for word in words if word not in _ARTICLES]
    return " ".join(kept or words)  # "A" may be all that is asked for


def _normalised_word(word: str) -> str:
    number = read_number(word)
    if number is not None:
        return write_number(number)
    return "".join(char for char in word if char not in string.punctuation)
