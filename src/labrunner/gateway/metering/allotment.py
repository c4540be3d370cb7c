"""What a gateway has of a fund that it shares with others: how much is left, and what it has to say of it.

Rules: what is used is never more than what was lent and not given back. What is not used is given back while
somebody waits who comes first, and while nobody is here who could use it. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from labrunner.gateway.metering.fund import Amounts, Statement, Terms

_ZERO: Final = Decimal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What this gateway does with its part."""

    spent: Amounts
    held: Amounts
    wanted: Amounts | None = None
    """What the first of those who wait here waits for."""
    like: Amounts = field(default_factory=dict)
    """What could be used beside that."""


class Allotment:
    """This gateway's part of one fund."""

    def __init__(self, *names: str) -> None:
        """Have nothing of any of these yet."""
        self._granted = dict.fromkeys(names, _ZERO)
        self._returned = dict.fromkeys(names, _ZERO)
        self.elsewhere: Amounts = dict.fromkeys(names, _ZERO)
        """What is spent by everybody else, as was heard last."""
        self._is_tight = False
        self._stated: Statement | None = None

    @property
    def granted(self) -> Amounts:
        """All that was ever lent."""
        return self._granted

    def has_room(self, used: Amounts, taking: Amounts) -> bool:
        """Whether that much more is there, beside what is used."""
        return all(
            used[name] + taking[name] <= self._granted[name] - self._returned[name] for name in self._granted
        )

    def take(self, terms: Terms) -> None:
        """Hear how the fund stands."""
        for name, amount in terms.granted.items():
            if amount > self._granted.get(name, _ZERO):
                self._granted[name] = amount
                self._stated = None  # it may be taken for waiting still: it has to hear
        self.elsewhere, self._is_tight = terms.elsewhere, terms.is_tight

    def free(self, used: Amounts) -> None:
        """No more than that is used now: what this leaves goes to who comes first, not to who waits here."""
        if self._is_tight:
            self._give_back(used)

    def forget_stated(self) -> None:
        """Whoever hears next has heard nothing."""
        self._stated = None

    def renew(self, names: Iterable[str]) -> None:
        """Have these from now on, and no others: what is limited was changed."""
        self._granted = {name: self._granted.get(name, _ZERO) for name in names}
        self._returned = {name: self._returned.get(name, _ZERO) for name in names}
        self.elsewhere = {name: self.elsewhere.get(name, _ZERO) for name in names}

    def state(self, use: "Use", *, is_idle: bool = False) -> Statement | None:
        """What has to be said, if anything, when so much is used; `is_idle`: nobody is here to use more."""
        used = {name: use.spent[name] + use.held[name] for name in self._granted}
        if self._is_tight or is_idle:
            self._give_back(used)
        need = {}
        if use.wanted is not None and not self.has_room(used, use.wanted):
            need = {name: amount + use.wanted[name] for name, amount in used.items()}
        told = Statement(
            granted=dict(self._granted),
            returned=dict(self._returned),
            spent={name: use.spent[name] for name in used},
            need=need,
            like={name: use.like.get(name, _ZERO) for name in need},
        )
        if self._stated is not None and not self._is_news(self._stated, told):
            return None
        self._stated = told
        return told

    def _give_back(self, used: Amounts) -> None:
        for name in self._granted:
            self._returned[name] += max(_ZERO, self._granted[name] - self._returned[name] - used[name])

    def _is_news(self, before: Statement, now: Statement) -> bool:
        if before.need != now.need or before.returned != now.returned:
            return True
        if before.spent == now.spent:
            return False
        is_beyond = any(now.spent[name] > now.granted[name] - now.returned[name] for name in now.spent)
        return self._is_tight or is_beyond  # what was lent is known to be gone, or as good as that
