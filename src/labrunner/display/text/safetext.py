"""Makes text that a sandbox wrote safe to print.

Rule: what an agent or a grader wrote can't move the cursor, colour, hide, reverse or overwrite anything on
a person's terminal. What can't be printed is shown as an escape, never dropped.
"""

import re
from typing import Final

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # invisible ones, and those that turn text around
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"  # halves of characters, annotations, tags
)
_LINE_END: Final = re.compile(r"\r\n|\r")
LONGEST_LINE: Final = 500


def sanitise(text: str) -> str:
    """Escape what a terminal would act on or hide; newlines stay, tabs become spaces."""
    return _UNPRINTABLE.sub(_escape, _LINE_END.sub("\n", text).replace("\t", "    "))


def sanitise_line(text: str) -> str:
    """The same for text that must stay on one line."""
    return sanitise(text).replace("\n", "\\n")


def take_tail(text: str, lines: int) -> str:
    """Give the last lines of a log, sanitised, long ones clipped, and say how much was left out."""
    every = sanitise(text).rstrip("\n").split("\n")
    kept = [clip(line) for line in every[-lines:]]
    left_out = len(every) - len(kept)
    return "\n".join([f"({left_out} earlier lines)", *kept] if left_out else kept)


def clip(line: str) -> str:
    """Cut a long line, and say how much was cut."""
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]} ({len(line) - LONGEST_LINE} more characters)"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
