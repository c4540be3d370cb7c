"""Reading what was said out of a model's text: choices, words and lines behind `ANSWER:`, and grades. Pure.

Rules: the last word counts, since models correct themselves; what does not keep to the form that was asked
for is no answer. Answers mean here what they mean in Inspect, so that scores can be compared.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

_MARK: Final = re.compile(r"ANSWER\s*:", re.IGNORECASE)
_NAMED: Final = r"ANSWER\s*:\s*([A-Za-z\d ,]+)"
_ON_ITS_LINE: Final = re.compile(rf"^{_NAMED}\s*(?:$|\.)", re.IGNORECASE | re.MULTILINE)
_ANYWHERE: Final = re.compile(rf"{_NAMED}(?!\w)", re.IGNORECASE)
_WRAPPED: Final = tuple(
    re.compile(rf"{mark}\s*([A-Za-z\d][A-Za-z\d ,]*?)\s*{mark}") for mark in (r"\$", r"\*\*")
)
_BRACKETED: Final = re.compile(r"(?:(?<=[:,])|\A)(\s*)\(([A-Za-z\d])\)(?=\s*(?:[,.\n]|\Z))")

_LETTER: Final = re.compile(r"\s*([A-Za-z])(?!\w)")
_WORD: Final = re.compile(r"\s*(\S+?)(?=[.,;:!?]?\s*(?:\n|\Z))")
_LINE: Final = re.compile(r"ANSWER\s*:\s*([^\n]+)\Z", re.IGNORECASE)

_INVISIBLE: Final = "\u200b\u200c\u200d\u200e\u200f\u2060\u2063\ufeff"
_GRADE_MARK: Final = re.compile(rf"(?<!\w)GRADE(?!\w)[\s{_INVISIBLE}]*:[\s{_INVISIBLE}]*(\w*)", re.IGNORECASE)
_GRADES: Final = {
    "c": "C",
    "correct": "C",
    "p": "P",
    "partial": "P",
    "i": "I",
    "incorrect": "I",
}


def label(index: int) -> str:
    """What a choice is called: A to Z, then 1, 2, 3, …."""
    return chr(ord("A") + index) if index < 26 else str(index - 25)


def position(name: str) -> int | None:
    """Where the choice of that name stands; None for what is no such name."""
    if len(name) == 1 and name.isascii() and name.isalpha():
        return ord(name.upper()) - ord("A")
    return int(name) + 25 if name.isdecimal() and int(name) > 0 else None


def read_choices(text: str, labels: Sequence[str], *, several: bool) -> set[str]:
    """The choices that an answer names; none when it names none, something else, or too many."""
    for wrapping in _WRAPPED:
        text = wrapping.sub(r"\1", text)
    text = _BRACKETED.sub(r"\1\2", text)
    found = _ON_ITS_LINE.findall(text) or _ANYWHERE.findall(text)
    if not found:
        return set()
    said = found[-1].strip().upper()
    return _several(said, set(labels)) if several else _single(said, set(labels))


def _single(said: str, labels: set[str]) -> set[str]:
    named = [part for part in said.split(",") if part]
    return set(named) if len(named) == 1 and named[0] in labels else set()


def _several(said: str, labels: set[str]) -> set[str]:
    """Choices one behind the other: `A, C`, `A and C`, `A C` and `AC` are the same."""
    joined = said.replace(" AND ", ",").replace(" ", "")
    named = {part for part in joined.split(",") if part}
    if named <= labels:
        return named
    return set(joined) if set(joined) <= labels else set()


def read_answer(text: str, kind: Literal["letter", "word", "line"]) -> str | None:
    """What stands behind the last `ANSWER:`: a letter, a word that ends its line, or the text's last line."""
    if kind == "line":
        line = _LINE.search(text.rstrip())
        return None if line is None else line[1].strip()
    marks = list(_MARK.finditer(text))
    found = (_LETTER if kind == "letter" else _WORD).match(text, marks[-1].end()) if marks else None
    return None if found is None else found[1]


def read_grade(text: str, offered: str | None) -> str | None:
    """The grade C, P or I that a judge ends with; None where it gave none of those that were `offered`.

    Where nobody knows what was offered, its first letter is taken.
    """
    marks = _GRADE_MARK.findall(text)
    if offered is None:
        known = [word[0].upper() for word in marks if word[:1].upper() in _GRADES.values()]
        return known[-1] if known else None
    grade = _GRADES.get(marks[-1].lower()) if marks else None
    return grade if grade is not None and grade in offered else None
