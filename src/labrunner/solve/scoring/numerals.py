"""Numbers in texts, as scorers compare them: by value, to the last digit, sign included. Pure.

`1,000.50`, `$1000.5` and `1.0005e3` are one number; `5` and `-5`, `4.2` and `42` are two. A number is a word
of its own: `x=5`, `3-5`, `60%` and `~42` say something else.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Final

_PLAIN: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_ORNAMENT: Final = re.compile(r"\\?[$£€,*_]")
_FULL_STOP: Final = re.compile(r"\.(?!\d)")
_AROUND: Final = "!?:;()[]{}'\"`"
_MINUS: Final = "-\N{MINUS SIGN}\N{SMALL HYPHEN-MINUS}\N{FULLWIDTH HYPHEN-MINUS}"
_PLUS: Final = "+\N{FULLWIDTH PLUS SIGN}\N{SMALL PLUS SIGN}"
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_EXPONENT: Final = re.compile(r"(.+?)([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_GROUPING: Final = str.maketrans(
    {"\N{ARABIC DECIMAL SEPARATOR}": ".", "\N{FULLWIDTH FULL STOP}": "."}
    | dict.fromkeys("'\N{RIGHT SINGLE QUOTATION MARK}\N{FULLWIDTH COMMA}\N{ARABIC THOUSANDS SEPARATOR}")
)


def find_numbers(text: str) -> Iterator[Decimal]:
    """The numbers of a text, in order."""
    for word in undress(text).split():
        number = parse(word.strip(_AROUND))
        if number is not None:
            yield number


def read_number(text: str, *, around: str = _AROUND) -> Decimal | None:
    """The number that a text is, but for what stands `around` it; None when it says more than that."""
    return parse(undress(text).strip().strip(around))


def undress(text: str) -> str:
    """A text without what only dresses numbers: currency signs, thousands' commas, emphasis, full stops."""
    return _FULL_STOP.sub("", _ORNAMENT.sub("", text))


def write_number(number: Decimal) -> str:
    """A number in the one way in which all equal ones are written."""
    digits = len(number.as_tuple().digits)
    return str(Context(prec=max(1, digits)).normalize(number)) if number else "0"


def parse(word: str) -> Decimal | None:
    """The finite number that a word is, in whatever script and with whatever sign; None for other words."""
    if _PLAIN.fullmatch(word):
        return Decimal(word) if math.isfinite(float(word)) else None
    value = _parse_unusual(word.strip())
    return Decimal(repr(value)) if value is not None and math.isfinite(value) else None


def _parse_unusual(word: str) -> float | None:
    """Signs, fractions and exponents that have characters of their own, as in `2½` and `3²`."""
    bare = word.lstrip(_MINUS + _PLUS)
    signs = word[: len(word) - len(bare)]
    if not bare:
        return None
    raised = _EXPONENT.fullmatch(bare)
    base = _parse_base(raised[1] if raised and len(bare) > 1 else bare)
    if base is None:
        return None
    base = -base if sum(signs.count(sign) for sign in _MINUS) % 2 else base
    if raised is None:
        return base
    try:
        return float(base ** int(raised[2].translate(_RAISED)))
    except (OverflowError, ZeroDivisionError):
        return None


def _parse_base(text: str) -> float | None:
    plain = text.translate(_GROUPING)
    if _PLAIN.fullmatch(plain):
        return float(plain)
    last = unicodedata.numeric(text[-1:], None) if text else None
    if last is None:
        return None
    if len(text) == 1:
        return last
    head = text[:-1].translate(_GROUPING)
    return float(head) + last if 0 < last < 1 and _PLAIN.fullmatch(head) else None
