"""`NAME:REST`: what is asked of something that has a name, and lies in no file."""

import re
from typing import Final

_NAMED: Final = re.compile(r"([A-Za-z][\w.+-]+):(.*)", re.DOTALL)
"""Two letters at least: one is a drive's."""


def split_name(text: str) -> tuple[str, str] | None:
    """The name, and what follows it; None where there is none."""
    match = _NAMED.fullmatch(text)
    return None if match is None else (match[1], match[2])
