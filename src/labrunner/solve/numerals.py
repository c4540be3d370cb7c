"""Numbers in texts, as scorers compare them: by value, to the last digit, sign included. Pure.

`1,000.50`, `$1000.5` and `1.0005e3` are one number; `5` and `-5`, `4.2` and `42` are two.
"""

import re
import unicodedata
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Final

_NUMBER: Final = re.compile(
    r"(?<![\w.])(?P<sign>[-+]?)[$€£]?"
    r"(?P<value>(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3}(?!\d))?)"
)
_AROUND: Final = "()[]{}<>\"'`*_~!?,;:.%"


def find_numbers(text: str) -> Iterator[Decimal]:
    """The numbers of a text, in order. A hyphen behind a letter or digit is no sign."""
    for found in _NUMBER.finditer(_plain(text)):
        yield _read(found)


def read_number(text: str) -> Decimal | None:
    """The number that a text is, but for what stands around it; None when it says more than that."""
    found = _NUMBER.fullmatch(_plain(text).strip().lstrip(_AROUND.replace(".", "")).rstrip(_AROUND))
    return None if found is None else _read(found)


def write_number(number: Decimal) -> str:
    """A number in the one way in which all equal ones are written."""
    digits = len(number.as_tuple().digits)
    return str(Context(prec=max(1, digits)).normalize(number)) if number else "0"


def _read(found: re.Match[str]) -> Decimal:
    return Decimal(found["sign"] + found["value"].replace(",", ""))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")
