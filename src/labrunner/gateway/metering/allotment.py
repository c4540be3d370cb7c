"""What a gateway has of a fund that it shares with others: how much is left, and what it has to say of it.

Rules: what is used is never more than what was lent and not given back. What is not needed at once is given
back while somebody else waits, and while nobody here uses anything. Pure.
"""

from decimal import Decimal
from typing import Final

from labrunner.gateway.metering.fund import Amounts, Statement, Terms

_ZERO: Final = Decimal()


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

    def forget_stated(self) -> None:
        """Whoever hears next has heard nothing."""
        self._stated = None

    def state(
        self, spent: Amounts, held: Amounts, wanted: Amounts | None = None, like: Amounts | None = None
    ) -> Statement | None:
        """What has to be said, if anything, when so much is used and somebody waits for so much more."""
        is_idle = wanted is None and not any(held.values())
        used = {name: spent[name] + held[name] for name in self._granted}
        if self._is_tight or is_idle:
            for name, amount in used.items():
                self._returned[name] += max(_ZERO, self._granted[name] - self._returned[name] - amount)
        is_short = wanted is not None and not self.has_room(used, wanted)
        need = {name: used[name] + wanted[name] for name in used} if wanted is not None and is_short else {}
        told = Statement(
            granted=dict(self._granted),
            returned=dict(self._returned),
            spent=dict(spent),
            need=need,
            like=dict(like or {}) if need else {},
        )
        if self._stated is not None and not self._is_news(self._stated, told):
            return None
        self._stated = told
        return told

    def _is_news(self, before: Statement, now: Statement) -> bool:
        if before.need != now.need or before.returned != now.returned:
            return True
        return self._is_tight and before.spent != now.spent
