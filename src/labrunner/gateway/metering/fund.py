"""What all gateways of a run may have together, lent to each in slices: money and tokens, or connections.

Rules: what is spent, and what is lent and not given back, is never more than there is. Who asks first is
served first, or, of connections, who has least; while somebody waits, nobody behind him keeps what is not
used. Sums of what is lent and given back only grow, so that what is said late or twice does no harm. What
nobody accounts for any more is taken to be spent; a borrower that was given up and is heard again has what it
says it has, also where that was lent to others meanwhile. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Final

import msgspec

Amounts = Mapping[str, Decimal]
"""By what is lent: `cost_usd`, `tokens`, `connections`."""
_ZERO: Final = Decimal()
_QUANTA: Final[Amounts] = {"cost_usd": Decimal("0.000001")}
"""The smallest piece of what does not come in whole ones."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """How a borrower stands with one fund."""

    granted: Amounts
    """All that was ever lent to it, as far as it has heard."""
    returned: Amounts
    """All that it ever gave back."""
    spent: Amounts
    """What is gone for good."""
    need: Amounts = {}
    """How much it has to have to go on: a level, so that what is on its way is not asked for twice."""
    like: Amounts = {}
    """What it could use beside that, so that it need not ask so soon again."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How the fund stands with one borrower."""

    granted: Amounts
    elsewhere: Amounts
    """What is spent by everybody else."""
    is_tight: bool = False
    """Whether somebody waits who comes first: what is not used is to be given back until told otherwise."""


@dataclass(slots=True, kw_only=True)
class Loan:
    """What one borrower has."""

    granted: dict[str, Decimal]
    returned: dict[str, Decimal]
    spent: dict[str, Decimal]
    need: Amounts = field(default_factory=dict)
    like: Amounts = field(default_factory=dict)
    turn: int = 0
    """When it asked. It keeps its turn until it needs nothing: it may have given back meanwhile."""
    is_over: bool = False
    """Whether the borrower is taken to be no more."""

    def count(self, name: str) -> Decimal:
        """What is not to be had by anybody else."""
        return max(self.granted[name] - self.returned[name], self.spent[name])

    @property
    def net(self) -> Decimal:
        """What it has, of what is counted in ones."""
        return sum((self.granted[name] - self.returned[name] for name in self.granted), _ZERO)

    def find_missing(self) -> dict[str, Decimal]:
        """What it needs and has not, nor is on its way to it."""
        missing = {
            name: level - (self.granted[name] - self.returned[name]) for name, level in self.need.items()
        }
        return {name: amount for name, amount in missing.items() if amount > 0}


class Fund:
    """One fund, and its borrowers."""

    def __init__(self, caps: Amounts, spent: Amounts | None = None, *, is_even: bool = False) -> None:
        """Lend nothing yet; `spent` is what was spent before, for which no borrower stands.

        `is_even`: who has least comes first. For what is asked for one by one, is not spent, and comes back.
        """
        self.caps = dict(caps)
        self._before = {name: (spent or {}).get(name, _ZERO) for name in caps}
        self._loans: dict[str, Loan] = {}
        self._turns = count()
        self._is_even = is_even

    @property
    def loans(self) -> Mapping[str, Loan]:
        """What each has."""
        return self._loans

    def find_free(self, name: str) -> Decimal:
        """What can be lent."""
        return self.caps[name] - self._before[name] - sum(loan.count(name) for loan in self._loans.values())

    def hear(self, borrower: str, told: Statement) -> None:
        """Take in how a borrower stands. One that nobody knew has what it says it has."""
        loan = self._find(borrower)
        for name in self.caps:
            returned = told.returned.get(name, _ZERO)
            loan.granted[name] = max(loan.granted[name], told.granted.get(name, _ZERO))
            loan.returned[name] = returned if loan.is_over else max(loan.returned[name], returned)
            loan.spent[name] = told.spent.get(name, _ZERO)
        loan.is_over = False
        if told.need and not loan.need:
            loan.turn = next(self._turns)
        loan.need, loan.like = told.need, told.like

    def dispense(self) -> bool:
        """Lend what can be lent to those who wait, in their turn; whether anything was."""
        is_any = False
        for loan in self._find_waiting():
            missing = loan.find_missing()
            if any(amount > self.find_free(name) for name, amount in missing.items()):
                break
            for name, amount in missing.items():
                loan.granted[name] += amount
            if self._is_even:
                loan.turn = next(self._turns)
            is_any = True
            if not self._find_waiting():
                self._add_more(loan)
        return is_any

    def write_terms(self, borrower: str) -> Terms:
        """How the fund stands with a borrower."""
        loan = self._find(borrower)
        elsewhere = {
            name: before + sum(each.spent[name] for each in self._loans.values() if each is not loan)
            for name, before in self._before.items()
        }
        is_tight = any(not loan.need or self._comes_first(each, loan) for each in self._find_waiting())
        return Terms(granted=dict(loan.granted), elsewhere=elsewhere, is_tight=is_tight)

    def settle(self, borrower: str, spent: Amounts) -> None:
        """A borrower is no more, and this is what it spent; what it did not is free."""
        loan = self._find(borrower)
        loan.need, loan.is_over = {}, True
        for name in self.caps:
            loan.spent[name] = spent.get(name, _ZERO)
            loan.returned[name] = max(loan.returned[name], loan.granted[name] - loan.spent[name])

    def lose(self, borrower: str) -> None:
        """Nobody accounts for what a borrower has: all of it counts as spent."""
        loan = self._find(borrower)
        loan.need, loan.is_over = {}, True
        for name in self.caps:
            loan.spent[name] = loan.count(name)

    def forget_need(self, borrower: str) -> None:
        """A borrower that is not heard of waits for nothing."""
        self._find(borrower).need = {}

    def _find_waiting(self) -> list[Loan]:
        """Those who have not what they need, in their turn."""
        waiting = (each for each in self._loans.values() if each.find_missing())
        return sorted(waiting, key=lambda each: (each.net if self._is_even else 0, each.turn))

    def _comes_first(self, one: Loan, other: Loan) -> bool:
        """Whether one that waits is to have what another gives back that could use more, too."""
        if not self._is_even:
            return one.turn < other.turn
        # One more is no reason, or the last one would go to and fro; but nobody is left without any.
        return one.net + 1 < other.net or one.net <= 0 < other.net

    def _add_more(self, loan: Loan) -> None:
        """A share of what is left, so that it asks seldom and others find something, too."""
        for name, amount in loan.like.items():
            share = self.find_free(name) / (len(self._loans) + 1)
            quantum = _QUANTA.get(name, Decimal(1))
            loan.granted[name] += max(_ZERO, min(amount, share) // quantum * quantum)

    def _find(self, borrower: str) -> Loan:
        if borrower not in self._loans:
            nothing = dict.fromkeys(self.caps, _ZERO)
            self._loans[borrower] = Loan(granted=dict(nothing), returned=dict(nothing), spent=dict(nothing))
        return self._loans[borrower]
