"""Limits of a trial, and the meter that holds an attempt to them.

Running into a limit is no error: the solver ends and the trial is scored as it stands. Each attempt has
limits of its own. Tokens and money are kept in the gateway's purse. Money is set aside before a request is
made, as much as it can cost: requests at the same time never go over a limit together. One that sets no limit
to its answer has all that is left to itself, and may go over by that answer. Tokens are counted when they are
spent. Scoring is not metered: a judge's model is no part of what is measured.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from typing import Any, Final

from labrunner.experiment.options import kinds
from labrunner.gateway.metering.purse import CapReached, Caps, Hold, Purse, Taking, reserve
from labrunner.records.completion import EndedBy
from labrunner.solve.values.messages import ModelUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one attempt at a sample may take; None for no limit."""

    time_s: float | None = None
    working_s: float | None = None
    """Seconds without those spent waiting: for a connection, for a failed request and for its retry."""
    messages: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no limit, where it is written."""
        for name, value in asdict(self).items():
            kind = kinds.COUNT if name in {"messages", "tokens"} else kinds.POSITIVE
            kind.check(f"limit {name}", value)

    def merge(self, other: "Limits") -> "Limits":
        """Lay the limits of another one over these."""
        return Limits(**(asdict(self) | other.given()))

    def given(self) -> dict[str, Any]:
        """The limits that there are."""
        return {name: value for name in _NAMES if (value := getattr(self, name)) is not None}

    @property
    def has_clock(self) -> bool:
        """Whether an attempt is timed."""
        return self.time_s is not None or self.working_s is not None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Limits":
        """Limits from their record."""
        return cls(**given)


def _to_money(amount: float | None) -> Decimal | None:
    """An amount as it is written: ten times 0.1 is 1."""
    return None if amount is None else Decimal(repr(float(amount)))


_NAMES: Final = tuple(each.name for each in fields(Limits))


class LimitExceeded(Exception):
    """A trial ran into a limit; it ends the solver, not the trial."""

    def __init__(self, kind: EndedBy, message: str) -> None:
        """Name the limit as rows do."""
        self.kind: EndedBy = kind
        super().__init__(message)


class Meter:
    """Counts what an attempt has taken. Called from the trial's own code; times come from the outside."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        """Start at nothing, now."""
        self.limits = limits
        self.usage = ModelUsage()
        self._purse = Purse(
            whose="attempt",
            setting="limits",
            caps=Caps(cost_usd=_to_money(limits.cost_usd), tokens=limits.tokens),
        )
        self.requests = 0
        self.is_scoring = False
        self.on_waiting: Callable[[bool], None] | None = None
        """Told when the attempt begins and ends to wait for something that is not its own work."""
        self._clock = clock
        self._started = clock()
        self._waited = 0.0
        self._waiting_since: float | None = None
        self._waiters = 0

    @property
    def limits_money(self) -> bool:
        """Whether what a request can cost has to be known before it is made."""
        return self.limits.cost_usd is not None and not self.is_scoring

    @asynccontextmanager
    async def holding(self, bound: Decimal | None, *, is_whole: bool) -> AsyncIterator[Hold | None]:
        """While inside, what a request can cost is set aside; waits for others. Raises LimitExceeded.

        `bound` is None where nobody knows it; `is_whole` says whether it holds the answer, too.
        """
        if bound is None or not self.limits_money:
            yield None
            return
        try:
            with self.waiting():
                hold = await self._reserve(bound, is_whole=is_whole)
        except CapReached as reached:
            raise LimitExceeded("cost", str(reached)) from reached
        try:
            yield hold
        finally:
            if not hold.is_settled:  # it failed: nothing was billed
                hold.settle(Taking())

    async def _reserve(self, bound: Decimal, *, is_whole: bool) -> Hold:
        purse = self._purse
        while not is_whole and purse.held.cost_usd:
            await purse.wait(Taking(cost_usd=bound))
        left = (purse.caps.cost_usd or Decimal()) - (purse.spent.cost_usd or Decimal())
        return await reserve([purse], Taking(cost_usd=bound if is_whole else max(bound, left)))

    def count(self, usage: ModelUsage | None, hold: Hold | None = None) -> None:
        """Take in what an answer took, in the place of what was set aside for it. Raises LimitExceeded."""
        self.requests += 1
        if usage is None:
            return
        self.usage = self.usage + usage
        cost = _to_money(usage.cost_usd) or Decimal()
        taken = Taking(cost_usd=cost, tokens=usage.total_tokens, requests=1)
        if hold is None:
            self._purse.settle(Taking(), taken)
        else:
            hold.settle(taken)
        self._check()

    def _check(self) -> None:
        exceeded = None if self.is_scoring else self._purse.find_exceeded()
        if exceeded == "tokens":
            told = f"{self.usage.total_tokens} tokens, the limit is {self.limits.tokens}"
            raise LimitExceeded("tokens", told)
        if exceeded == "cost":
            raise LimitExceeded("cost", f"{self.usage.cost_usd} USD, the limit is {self.limits.cost_usd}")

    def check_messages(self, count: int) -> None:
        """Refuse another turn of a conversation that is long enough. Raises LimitExceeded."""
        limit = self.limits.messages
        if limit is not None and not self.is_scoring and count >= limit:
            raise LimitExceeded("messages", f"{count} messages, the limit is {limit}")

    def check_spent(self) -> None:
        """Refuse another request where tokens or money are used up already. Raises LimitExceeded."""
        self._check()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While inside, the attempt waits, and does not work."""
        self._waiters += 1
        if self._waiters == 1:
            self._waiting_since = self._clock()
            self._tell(True)
        try:
            yield
        finally:
            self._waiters -= 1
            if self._waiters == 0 and self._waiting_since is not None:
                self._waited += self._clock() - self._waiting_since
                self._waiting_since = None
                self._tell(False)

    def add_waited(self, seconds: float) -> None:
        """Take time back that turned out to be waiting: a request that failed."""
        self._waited += seconds

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting so far."""
        since = self._waiting_since
        return self._waited + (self._clock() - since if since is not None else 0.0)

    @property
    def working_s(self) -> float:
        """Seconds spent working so far."""
        return max(0.0, self._clock() - self._started - self.waited_s)

    @property
    def working_left_s(self) -> float | None:
        """Seconds of work that are left; None for no limit."""
        limit = self.limits.working_s
        return None if limit is None else max(0.0, limit - self.working_s)

    def _tell(self, is_waiting: bool) -> None:
        if self.on_waiting is not None:
            self.on_waiting(is_waiting)
