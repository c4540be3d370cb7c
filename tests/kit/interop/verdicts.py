"""What two harnesses say of one task, and why that differs.

A verdict is a text: a score, with other rewards behind it; `error` where there is none; `refused`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ORACLE: Final = "oracle"
"""The task's solution works."""
HALF: Final = "half"
"""A solution that is not right works."""
NOP: Final = "nop"
"""Nobody works."""
ERROR: Final = "error"
REFUSED: Final = "refused"


@dataclass(frozen=True, kw_only=True)
class Said:
    """Verdicts on one task, by who worked. Who is not in it does not work on this task."""

    shows: str
    theirs: Mapping[str, str]
    ours: Mapping[str, str] = field(default_factory=dict)
    """Where it differs from theirs."""
    why: str = ""

    def of_us(self) -> dict[str, str]:
        return {**self.theirs, **self.ours}


def name_number(value: float) -> str:
    return f"{float(value):g}"


def name_rewards(score: float | None, others: Mapping[str, float]) -> str:
    """A verdict as a text."""
    told = [] if score is None else [name_number(score)]
    return ", ".join((*told, *(f"{name} {name_number(value)}" for name, value in others.items()))) or ERROR
