"""When what a run has used ends it: `budget`.

A limit is reached when as much or more is spent: what is in flight ends, nothing new starts. Every attempt
counts, failed ones too, by the gateway's meter where it has one, else by what it reports; one that reports
nothing counts nothing, and where none of them reports, the limit can't hold, which people must hear. A
request that the gateway refused because it could go over a limit has reached it. Amounts are added as they
are written, so that ten times 0.1 is 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

LIMITED: Final[Mapping[str, str]] = {"cost_usd": "USD", "tokens": "tokens"}
"""What a budget can limit, by the name that attempts report it under, with its unit."""
CUT_SHORT: Final[Mapping[str, str]] = {"budget_cost": "cost_usd", "budget_tokens": "tokens"}
"""Why attempts are cut short by the budget, with the limit that it was."""
HEARD_ENOUGH: Final = 3
"""After so many graded attempts without a report none is expected any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits for the whole run."""

    cost_usd: float | None
    tokens: int | None


@dataclass(slots=True)
class Spending:
    """What a run's attempts have used so far."""

    attempts: int = 0
    graded: int = 0
    amounts: dict[str, Decimal] = field(default_factory=lambda: dict.fromkeys(LIMITED, Decimal()))
    reports: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIMITED, 0))
    """How many attempts reported each."""
    refused: set[str] = field(default_factory=set)
    """Limits that a request could have gone over."""

    def add(self, usage: Mapping[str, float | int], *, is_graded: bool) -> None:
        """Take in one attempt."""
        self.attempts += 1
        self.graded += is_graded
        for name in LIMITED:
            if name in usage:
                self.amounts[name] += Decimal(repr(usage[name]))
                self.reports[name] += 1


def limits_of(budget: Budget) -> dict[str, Decimal]:
    """The limits that a budget has."""
    given = {"cost_usd": budget.cost_usd, "tokens": budget.tokens}
    return {name: Decimal(repr(limit)) for name, limit in given.items() if limit is not None}


def describe_budget(budget: Budget) -> str:
    """Say what a run may use; empty when that is not limited."""
    return ", ".join(f"{_write(limit)} {LIMITED[name]}" for name, limit in limits_of(budget).items())


def find_used_up(budget: Budget, spending: Spending) -> tuple[str, ...]:
    """What a budget limits and is used up."""
    limits = limits_of(budget).items()
    return tuple(
        name for name, limit in limits if spending.amounts[name] >= limit or name in spending.refused
    )


def describe_used_up(budget: Budget, spending: Spending, used_up: Sequence[str]) -> str:
    """Say what is used up."""
    return "; ".join(_describe(name, limits_of(budget)[name], spending) for name in used_up)


def find_unheard(budget: Budget, spending: Spending, *, planned: int) -> tuple[str, ...]:
    """What a budget limits and no attempt reports, once enough of them were heard."""
    if spending.graded < min(HEARD_ENOUGH, planned):
        return ()
    return tuple(name for name in limits_of(budget) if not spending.reports[name])


def describe_unheard(budget: Budget, unheard: Sequence[str]) -> str:
    """Warn of limits that can't hold."""
    limits = limits_of(budget)
    return "; ".join(
        f"no attempt reports `{name}`, so the budget of {_write(limits[name])} {LIMITED[name]} "
        "will never stop this run"
        for name in unheard
    )


def _describe(name: str, limit: Decimal, spending: Spending) -> str:
    silent = spending.attempts - spending.reports[name]
    count = "1 attempt" if spending.attempts == 1 else f"{spending.attempts:,} attempts"
    told = f"{_write(spending.amounts[name])} spent in {count}"
    told += f", of which {silent:,} did not report any" if silent else ""
    told += ", and another request could have gone over it" if spending.amounts[name] < limit else ""
    return f"the budget of {_write(limit)} {LIMITED[name]} is used up: {told}"


def _write(amount: Decimal) -> str:
    """An amount for people: without zeros that say nothing."""
    text = f"{amount:,.6f}".rstrip("0").rstrip(".")
    return text if amount == 0 or text != "0" else f"{amount:.2g}"
