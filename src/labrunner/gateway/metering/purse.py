"""Caps that hold while requests are in flight: reserve before, settle after.

Rules: a request is let through only if all that is spent, all that is held for others and all that it can
take stay within every cap. One that would fit if those in flight took less waits for them; one that would
not is refused. What a request really took replaces what was held for it. Of a cap that several gateways hold
together, each lets through only what its allotment has. One loop, no threads.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from labrunner.gateway.metering.allotment import Allotment, Use
from labrunner.gateway.metering.fund import Amounts

SLICE: Final = 16
"""What is borrowed at once is enough for so many requests."""
Limit = Literal["cost", "tokens", "requests"]
"""What can be capped, by the word that rows use where it ended an agent."""
PurseOwner = Literal["attempt", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What may be used at most; None for no cap."""

    cost_usd: Decimal | None = None
    tokens: int | None = None
    requests: int | None = None

    @property
    def amounts(self) -> dict[str, Decimal]:
        """Those caps that several gateways may hold together."""
        tokens = None if self.tokens is None else Decimal(self.tokens)
        return {
            name: cap for name, cap in (("cost_usd", self.cost_usd), ("tokens", tokens)) if cap is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """What requests take."""

    cost_usd: Decimal | None = Decimal()
    """None for a model without a price."""
    tokens: int = 0
    requests: int = 0

    @property
    def amounts(self) -> dict[str, Decimal]:
        """The same, as several gateways reckon with it."""
        return {"cost_usd": self.cost_usd or Decimal(), "tokens": Decimal(self.tokens)}

    @classmethod
    def of(cls, amounts: Amounts) -> "Taking":
        """Of what several gateways reckon with."""
        return cls(cost_usd=amounts.get("cost_usd", Decimal()), tokens=int(amounts.get("tokens", 0)))

    def plus(self, other: "Taking") -> "Taking":
        """Both together; what has no price adds nothing."""
        return Taking(
            cost_usd=(self.cost_usd or Decimal()) + (other.cost_usd or Decimal()),
            tokens=self.tokens + other.tokens,
            requests=self.requests + other.requests,
        )

    def minus(self, other: "Taking") -> "Taking":
        """This without the other."""
        return Taking(
            cost_usd=(self.cost_usd or Decimal()) - (other.cost_usd or Decimal()),
            tokens=self.tokens - other.tokens,
            requests=self.requests - other.requests,
        )


class CapReached(Exception):
    """A request that a cap does not allow."""

    def __init__(self, limit: Limit, whose: PurseOwner, message: str) -> None:
        """Name the cap as rows do, and say it to people."""
        self.limit = limit
        self.whose = whose
        super().__init__(message)


class Unpriced(Exception):
    """Money is limited, and a model has no price: nobody could say when the limit is reached."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """What an attempt, or a run, may spend, has spent, and has in flight."""

    whose: PurseOwner
    setting: str
    """Where its caps are written, for people: `agent.limits`, `budget`."""
    caps: Caps
    spent: Taking = field(default_factory=Taking)
    held: Taking = field(default_factory=Taking)
    reached: CapReached | None = None
    """The first refusal: whoever runs the agent ends it by this."""
    allotment: Allotment | None = None
    """Set where the caps are held by several gateways together: what this one has of them."""
    on_change: Callable[[], None] = lambda: None
    """Told whenever something is held, settled or waited for."""
    _waiting: dict[asyncio.Future[None], Taking] = field(default_factory=dict)

    @property
    def all_spent(self) -> Taking:
        """What is spent here and, as far as is known, elsewhere."""
        return self.spent if self.allotment is None else self.spent.plus(Taking.of(self.allotment.elsewhere))

    def check(self, taking: Taking) -> None:
        """Refuse what does not fit, even if all in flight took nothing. Raises CapReached, Unpriced."""
        if self.caps.cost_usd is not None and taking.cost_usd is None:
            raise Unpriced(
                f"the {self.whose}'s cap of {self.caps.cost_usd} USD can't be held: this model has no price; "
                "give it one under `prices` of its entry in `models:`"
            )
        if (limit := self._find_lack(self.all_spent.plus(taking), taking)) is not None:
            refusal = CapReached(limit, self.whose, self._describe(limit, taking))
            self.reached = self.reached or refusal
            raise refusal

    def has_room(self, taking: Taking) -> bool:
        """Whether it fits though all in flight take what is held for them."""
        used = self.spent.plus(self.held)
        if self.allotment is not None:
            return self.allotment.has_room(used.amounts, taking.amounts)
        return self._find_lack(used.plus(taking), taking) is None

    def find_exceeded(self) -> Limit | None:
        """The cap that what is spent goes beyond, for callers that can't bound a request beforehand."""
        return self._find_lack(self.spent, Taking())

    def hold(self, taking: Taking) -> None:
        """Set aside."""
        self.held = self.held.plus(taking)
        self.on_change()

    def settle(self, held: Taking, taken: Taking) -> None:
        """Replace what was held by what was taken, and wake who waits."""
        self.held = self.held.minus(held)
        self.spent = self.spent.plus(taken)
        self.wake()

    def wake(self) -> None:
        """Have those who wait look again."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self.on_change()

    async def wait(self, taking: Taking) -> None:
        """Until something is settled, or lent."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = taking
        self.on_change()
        try:
            await future
        finally:
            del self._waiting[future]
            self.on_change()

    def tell_use(self) -> Use:
        """What is done here with what is lent."""
        spent, held = self.spent.amounts, self.held.amounts
        first = next(iter(self._waiting.values()), None)
        if first is None:
            return Use(spent=spent, held=held)
        like = {name: (SLICE - 1) * amount for name, amount in first.amounts.items()}
        return Use(spent=spent, held=held, wanted=first.amounts, like=like)

    def _find_lack(self, total: Taking, taking: Taking) -> Limit | None:
        caps = self.caps
        if caps.cost_usd is not None and (taking.cost_usd is None or (total.cost_usd or 0) > caps.cost_usd):
            return "cost"
        if caps.tokens is not None and total.tokens > caps.tokens:
            return "tokens"
        if caps.requests is not None and total.requests > caps.requests:
            return "requests"
        return None

    def _describe(self, limit: Limit, taking: Taking) -> str:
        caps, spent = self.caps, self.all_spent
        wanted = f"{_write(spent.cost_usd)} spent, and this request can cost {_write(taking.cost_usd)}"
        cap, told, name = {
            "cost": (f"{caps.cost_usd} USD", wanted, "cost_usd"),
            "tokens": (
                f"{caps.tokens} tokens",
                f"{spent.tokens} used, and this request can take {taking.tokens}",
                "tokens",
            ),
            "requests": (f"{caps.requests} requests", f"{spent.requests} made", "requests"),
        }[limit]
        return (
            f"the {self.whose}'s cap of {cap} is reached: {told}; to allow more, raise {self.setting}.{name}"
        )


class Hold:
    """What is set aside for one request, in every purse that pays for it."""

    def __init__(self, purses: Sequence[Purse], taking: Taking) -> None:
        """Made by `reserve`."""
        self._purses = tuple(purses)
        self.taking = taking
        self.is_settled = False

    def settle(self, taken: Taking) -> None:
        """Pay what the request took; once."""
        if self.is_settled:
            raise RuntimeError("a reservation is settled twice")
        self.is_settled = True
        for purse in self._purses:
            purse.settle(self.taking, taken)


async def reserve(purses: Sequence[Purse], taking: Taking) -> Hold:
    """Set aside what a request can take, in all purses or in none; waits for those in flight.

    Raises CapReached, Unpriced.
    """
    while True:
        for purse in purses:
            purse.check(taking)
        full = next((purse for purse in purses if not purse.has_room(taking)), None)
        if full is None:
            break
        await full.wait(taking)
    for purse in purses:
        purse.hold(taking)
    return Hold(purses, taking)


def _write(amount: Decimal | None) -> str:
    return "nothing" if not amount else f"{amount:.6f}".rstrip("0").rstrip(".")
