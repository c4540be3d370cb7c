"""What tokens cost.

Rules: an experiment's own prices win over the table; a model that neither knows has no price, which is
None and never 0. A price names its source. Money is Decimal: ten times 0.1 is 1. A bound assumes the
dearest way in which input can be billed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

import genai_prices

from labrunner.gateway.dialects.speech import Dialect, Tokens

_MILLION: Final = Decimal(1_000_000)
_PROVIDERS: Final[Mapping[Dialect, str]] = {"openai": "openai", "anthropic": "anthropic", "gemini": "google"}
OWN: Final = "experiment"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrice:
    """USD for a million tokens, as an experiment says it."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    """None: as any input."""
    cache_write: Decimal | None = None

    def multiply(self, tokens: Tokens) -> Decimal:
        """The cost of a call."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        plain = tokens.input - tokens.cache_read - tokens.cache_write
        billed = plain * self.input + tokens.cache_read * read + tokens.cache_write * write
        return (billed + tokens.output * self.output) / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something costs, by whose word."""

    usd: Decimal
    source: str
    """`experiment`, or the table with its version, the provider and the model in it."""
    priced_on: str
    """The day for which the price was looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Prices of one entry of `models:`, or of a provider that a Python task asks."""

    dialect: Dialect = "openai"
    provider: str | None = None
    """Who bills, by the table's name, where neither dialect nor address say it."""
    base_url: str | None = None
    """Where the provider was named by its address: who bills is found by it."""
    own: Mapping[str, OwnPrice]

    def price(self, model: str, tokens: Tokens, at: datetime, *, tier: str | None = None) -> Cost | None:
        """What a call cost; None where nobody knows."""
        tokens = _make_consistent(tokens)
        day = f"{at:%Y-%m-%d}"
        if (own := self.own.get(model)) is not None:
            return Cost(usd=own.multiply(tokens), source=OWN, priced_on=day)
        return self._look_up(model, tokens, at, tier)

    def bound(self, model: str, most: Tokens, at: datetime, *, tier: str | None = None) -> Cost | None:
        """What a call with so much input and output can cost; None where nobody knows."""
        whole = most.input
        ways = (
            Tokens(input=whole, output=most.output),
            Tokens(input=whole, output=most.output, cache_write=whole),
            Tokens(input=whole, output=most.output, cache_write=whole, cache_write_1h=whole),
        )
        costs = [self.price(model, each, at, tier=word) for each in ways for word in {None, tier}]
        known = [cost for cost in costs if cost is not None]
        return max(known, key=lambda cost: cost.usd) if len(known) == len(costs) else None

    def _look_up(self, model: str, tokens: Tokens, at: datetime, tier: str | None) -> Cost | None:
        usage = genai_prices.Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=tokens.cache_read,
            cache_write_tokens=tokens.cache_write,
            cache_write_1h_tokens=tokens.cache_write_1h,
        )
        context = None if tier is None else {"service_tier": tier}
        for is_named in self._find_ways():
            try:
                if is_named:
                    found = genai_prices.calc_price(
                        usage,
                        model,
                        provider_id=self.provider or _PROVIDERS[self.dialect],
                        genai_request_timestamp=at,
                        price_context=context,
                    )
                else:
                    found = genai_prices.calc_price(
                        usage,
                        model,
                        provider_api_url=self.base_url,
                        genai_request_timestamp=at,
                        price_context=context,
                    )
            except LookupError:
                continue
            source = f"genai-prices {genai_prices.__version__}: {found.provider.id}/{found.model.id}"
            return Cost(usd=found.total_price, source=source, priced_on=f"{at:%Y-%m-%d}")
        return None

    def _find_ways(self) -> tuple[bool, ...]:
        """Whether who bills is asked for by name (True) or by address; an address says more than a name."""
        if self.base_url is None:
            return (True,)
        return (False,) if self.provider is None else (False, True)


def name_table(dialect: Dialect, base_url: str | None) -> str | None:
    """The table that prices models of a provider, and what it calls him; None where it does not know him."""
    from genai_prices.data_snapshot import get_snapshot  # only asked before a run

    known = _PROVIDERS[dialect] if base_url is None else None
    try:
        provider = get_snapshot().find_provider(None, known, base_url)
    except LookupError:
        return None
    return f"genai-prices {genai_prices.__version__} ({provider.id})"


def _make_consistent(tokens: Tokens) -> Tokens:
    """Parts are no larger than what they are part of, whatever a provider says."""
    write = min(tokens.cache_write, tokens.input)
    return Tokens(
        input=tokens.input,
        output=tokens.output,
        cache_read=min(tokens.cache_read, tokens.input - write),
        cache_write=write,
        cache_write_1h=min(tokens.cache_write_1h, write),
        reasoning=min(tokens.reasoning, tokens.output),
    )
