"""What the runs before a run did for its trials, added up."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from labrunner.records.facts.earlier import EarlierAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The part of a lineage that lies before a run. What it took over from there is in its own figures."""

    runs: tuple[str, ...]
    """Runs with such attempts, the oldest first."""
    attempts: int
    rerolls: int
    """Of these, agents that were asked what this run asked again."""
    standings: dict[str, int] = field(default_factory=dict)
    """How many there are of each kind, and so why their results are not this run's."""
    judged_in: tuple[str, ...] = ()
    """Runs that judged kept work of theirs anew, which may be this one."""
    causes: dict[str, int] = field(default_factory=dict)
    """Errors among them."""
    verdicts: dict[str, int] = field(default_factory=dict)
    tokens: float | None = None
    """What they report to have used; None where none does."""
    cost_usd: float | None = None


def sum_up(earlier: Mapping[int, tuple[EarlierAttempt, ...]]) -> Lineage | None:
    """Add up what was before; None for a run that nothing was before."""
    attempts = sorted(
        (attempt for each in earlier.values() for attempt in each), key=lambda attempt: attempt.started_at
    )
    if not attempts:
        return None
    return Lineage(
        runs=tuple(dict.fromkeys(attempt.run_id for attempt in attempts)),
        attempts=len(attempts),
        rerolls=sum(attempt.is_reroll for attempt in attempts),
        standings=dict(Counter(attempt.standing for attempt in attempts)),
        judged_in=tuple(dict.fromkeys(attempt.judged_in for attempt in attempts if attempt.judged_in)),
        causes=dict(Counter(str(attempt.cause) for attempt in attempts if attempt.cause is not None)),
        verdicts=dict(Counter(attempt.verdict for attempt in attempts if attempt.verdict is not None)),
        tokens=_sum("tokens", attempts),
        cost_usd=_sum("cost_usd", attempts),
    )


def describe_lineage(lineage: Lineage) -> str:
    """Say in one sentence what came before a run."""
    count = "1 attempt" if lineage.attempts == 1 else f"{lineage.attempts:,} attempts"
    # In one order, whether it was just counted or read back from a summary.
    known = sorted(lineage.standings.items(), key=lambda each: list(_TOLD).index(each[0]))
    anew = f" in {', '.join(lineage.judged_in)}" if lineage.judged_in else " since"
    parts = [
        f"{number:,} {_TOLD[standing]}{anew if standing == 'graded_again' else ''}"
        for standing, number in known
    ]
    if lineage.causes:
        causes = ", ".join(f"{cause} {number:,}" for cause, number in lineage.causes.items())
        parts.append(f"errors by cause: {causes}")
    used = [f"{lineage.tokens:,.0f} tokens"] if lineage.tokens is not None else []
    used += [f"{_write_money(lineage.cost_usd)} USD"] if lineage.cost_usd is not None else []
    if used:
        parts.append(f"they used {' and '.join(used)}")
    return f"before this run: {count} in {', '.join(lineage.runs)} ({'; '.join(parts)})"


_TOLD: Final[Mapping[str, str]] = {
    "failed": "failed",
    "invalidated": "marked as not to be used",
    "replaced": "replaced by newer results",
    "changed": "of other tasks or variants",
    "graded_again": "judged anew",
}
"""Standings of attempts, in words."""


def _sum(name: str, attempts: Iterable[EarlierAttempt]) -> float | None:
    told = [float(attempt.usage[name]) for attempt in attempts if name in attempt.usage]
    return sum(told) if told else None


def _write_money(amount: float) -> str:
    """Money, to the cent; what is less than one is not nothing."""
    return f"{amount:,.2f}" if amount >= 0.01 or not amount else f"{amount:.6f}".rstrip("0")
