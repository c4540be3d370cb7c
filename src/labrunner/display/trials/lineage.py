"""What people read of what earlier runs tried for a trial."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from labrunner.display.text.console import indent, make_line, stack
from labrunner.display.text.safetext import take_tail
from labrunner.records.facts.earlier import EarlierAttempt, Standing

_WHY: Final[dict[Standing, str]] = {
    "failed": "failed, and was tried again",
    "invalidated": "was marked as not to be used",
    "replaced": "gave way to a newer result",
    "changed": "was put to another task or variant",
    "graded_again": "is the work that was judged anew",
}
TAIL_LINES: Final = 3


def show_earlier(attempts: Sequence[EarlierAttempt]) -> RenderableType | None:
    """Show what earlier runs tried for a trial; nothing where they did not."""
    return stack(make_line(""), *map(_show, attempts)) if attempts else None


def _show(attempt: EarlierAttempt) -> RenderableType:
    ended = f"cause {attempt.cause} ({attempt.reason})" if attempt.cause else str(attempt.verdict)
    told = f"earlier, attempt {attempt.attempt} of {attempt.run_id}: {ended}; it {_WHY[attempt.standing]}"
    told += f" in {attempt.judged_in}" if attempt.judged_in else ""
    names = [name for name in ("tokens", "cost_usd") if name in attempt.usage]
    used = ", ".join(f"{name} {attempt.usage[name]:g}" for name in names)
    return stack(
        make_line(f"{told}; {attempt.started_at}{'; ' if used else ''}{used}"),
        indent(Text(take_tail(attempt.message, TAIL_LINES))) if attempt.message else None,
    )
