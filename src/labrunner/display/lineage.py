"""What people read of the runs before a run: in its summary, and of one trial."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from labrunner.analysis.lineage import Lineage
from labrunner.display.console import indent, make_line, stack
from labrunner.display.quantities import format_count
from labrunner.display.safetext import take_tail
from labrunner.records.earlier import EarlierAttempt, Standing

_WHY: Final[dict[Standing, str]] = {
    "failed": "failed, and was tried again",
    "invalidated": "was marked as not to be used",
    "replaced": "gave way to a newer result",
    "changed": "was put to another task or variant",
    "graded_again": "is the work that this run judges anew",
}
TAIL_LINES: Final = 3


def describe_lineage(lineage: Lineage) -> str:
    """Say in one sentence what came before a run."""
    told = f"before this run: {format_count(lineage.attempts, 'attempt')} in {', '.join(lineage.runs)}"
    parts = [f"{count:,} {_MANY[standing]}" for standing, count in lineage.standings.items()]
    parts += [f"errors by cause: {', '.join(f'{name} {n:,}' for name, n in lineage.causes.items())}"] * bool(
        lineage.causes
    )
    used = [f"{lineage.tokens:,.0f} tokens"] if lineage.tokens is not None else []
    used += [f"{lineage.cost_usd:,.2f} USD"] if lineage.cost_usd is not None else []
    parts += [f"they used {' and '.join(used)}"] if used else []
    return f"{told} ({'; '.join(parts)})"


_MANY: Final[dict[str, str]] = {
    "failed": "failed",
    "invalidated": "marked as not to be used",
    "replaced": "replaced by newer results",
    "changed": "of other tasks or variants",
    "graded_again": "judged anew here",
}


def show_earlier(attempts: Sequence[EarlierAttempt]) -> RenderableType | None:
    """Show what earlier runs tried for a trial; nothing where they did not."""
    return stack(make_line(""), *map(_show, attempts)) if attempts else None


def _show(attempt: EarlierAttempt) -> RenderableType:
    ended = f"cause {attempt.cause} ({attempt.reason})" if attempt.cause else str(attempt.verdict)
    told = f"earlier, attempt {attempt.attempt} of {attempt.run_id}: {ended}; it {_WHY[attempt.standing]}"
    names = [name for name in ("tokens", "cost_usd") if name in attempt.usage]
    used = ", ".join(f"{name} {attempt.usage[name]:g}" for name in names)
    return stack(
        make_line(f"{told}; {attempt.started_at}{'; ' if used else ''}{used}"),
        indent(Text(take_tail(attempt.message, TAIL_LINES))) if attempt.message else None,
    )
