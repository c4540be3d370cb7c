"""The scorers that come with the package, but for those that ask a model."""

import re
import string
from collections.abc import Callable
from decimal import Decimal
from typing import Literal, TypeAlias

from labrunner.solve.authoring.scorer import Scorer, scorer
from labrunner.solve.scoring.extraction import label, position, read_answer
from labrunner.solve.scoring.metrics import accuracy, stderr
from labrunner.solve.scoring.numerals import find_numbers, parse, read_number, write_number
from labrunner.solve.values.sample import Target
from labrunner.solve.values.score import CORRECT, INCORRECT, NOANSWER, Score
from labrunner.solve.values.state import TaskState

Location: TypeAlias = Literal["begin", "end", "any", "exact"]
_ARTICLES = frozenset({"a", "an", "the"})
_PUNCTUATION_BUT_SIGNS = string.punctuation.translate(str.maketrans("", "", "-+."))


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
    return _comparing(lambda answer, wanted: _normalised(answer) == _normalised(wanted) != "")


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
        right = [group for group in groups if _is_among(group, target, ignore_case)]
        if match_all:
            all_right = bool(groups) and len(right) == len(groups)
            return Score(
                _judged(all_right and target.text != ""), target.text if all_right else None, completion
            )
        # Of one group people want to see what it found; of several, nobody knows which they mean.
        answer = right[0] if right else groups[0] if groups and compiled.groups <= 1 else None
        return Score(_judged(bool(right and right[0])), answer, completion)

    return score


@scorer(metrics=[accuracy(), stderr()])
def answer(pattern: Literal["letter", "word", "line"]) -> Scorer:
    """Right when what stands behind the last `ANSWER:` is a target: a letter, a word or a line."""

    async def score(state: TaskState, target: Target) -> Score:
        said = read_answer(state.output.completion, pattern)
        if said is None:
            return Score(INCORRECT, explanation=f"no answer was found in: {state.output.completion}")
        return Score(_judged(_is_among(said, target, True)), said, state.output.completion)

    return score


@scorer(metrics=[accuracy(), stderr()])
def choice() -> Scorer:
    """Right when the choices that the model took are those of the target: letters, or their texts.

    An empty answer has the value N.
    """

    async def score(state: TaskState, target: Target) -> Score:
        if not state.choices:
            raise ValueError(f"sample {state.sample_id} has no choices, which choice() judges")
        taken = {each.original_position for each in state.choices if each.correct}
        said = ", ".join(label(at) for at in sorted(taken))
        completion = state.output.completion
        if taken == _wanted_positions(state, target) and taken:
            return Score(CORRECT, said, completion)
        return Score(INCORRECT if taken or completion.strip() else NOANSWER, said, completion)

    return score


def _wanted_positions(state: TaskState, target: Target) -> set[int]:
    """Where the right choices stood: by their letters, or else by their texts."""
    wanted: set[int] = set()
    texts = {each.value: each.original_position for each in state.choices}
    for text in target:
        named = [position(name) for name in _names(text)]
        if named and all(at is not None and at < len(state.choices) for at in named):
            wanted |= {at for at in named if at is not None}
        elif text in texts:
            wanted.add(texts[text])
        else:
            told = f"names no choice of the {len(state.choices)} that there are"
            raise ValueError(f"target {text!r} of sample {state.sample_id} {told}")
    return wanted


def _names(text: str) -> list[str]:
    """Letters and numbers of choices: `A,C`, `A C` and `AC` are two."""
    words = text.replace(",", " ").split()
    return [name for word in words for name in ([word] if word.isdecimal() else word)]


def _judged(is_right: bool) -> str:
    return CORRECT if is_right else INCORRECT


def _comparing(fits: Callable[[str, str], bool]) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        said = state.output.completion
        is_right = any(fits(said, wanted) for wanted in target)
        return Score(CORRECT if is_right else INCORRECT, said.strip(), said)

    return score


def _is_among(found: str, target: Target, ignore_case: bool) -> bool:
    if ignore_case:
        return found.lower() in {wanted.lower() for wanted in target}
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
        return read_number(answer, around="") == number
    found = list(find_numbers(answer))
    match location:
        case "begin":
            return found[:1] == [number]
        case "end":
            return found[-1:] == [number]
        case _:
            return number in found


def _normalised(text: str) -> str:
    words = [_normalised_word(part) for word in text.casefold().split(" ") for part in _parts(word)]
    spelled = [part for word in words for part in word.split()]
    kept = [part for part in spelled if part not in _ARTICLES]
    return " ".join(kept or spelled)  # "A" may be all that is asked for


def _parts(word: str) -> list[str]:
    """A word at its hyphens; that of a negative number is a sign."""
    return [word] if parse(_stripped_but_sign(word)) is not None else word.split("-")


def _normalised_word(word: str) -> str:
    number = parse(_stripped_but_sign(word))
    if number is not None:
        return write_number(number)
    bare = "".join(char for char in word if char not in string.punctuation)
    number = parse(bare)
    return bare if number is None else write_number(number)


def _stripped_but_sign(word: str) -> str:
    """A word without the punctuation around it, but with a number's sign and leading point."""
    left = word.strip().lstrip(_PUNCTUATION_BUT_SIGNS).rstrip(string.punctuation)
    return left if parse(left) is not None else _stripped(left)
