from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labrunner.gateway.dialects.speech import Dialect, Tokens
from labrunner.gateway.metering.pricelist import OwnPrice, PriceList

NOW = datetime(2026, 11, 5, tzinfo=UTC)
OWN = OwnPrice(input=Decimal("0.1"), output=Decimal("0.4"), cache_read=Decimal("0.01"))
USED = Tokens(input=1000, output=100, cache_read=500, cache_write=100, cache_write_1h=40, reasoning=50)


@pytest.mark.parametrize(
    ("dialect", "model", "usd", "found"),
    [
        # 400 plain, 500 read, 60 written for 5 minutes, 40 for an hour; 100 out.
        ("anthropic", "claude-sonnet-4-20250514", "0.003315", "anthropic/claude-sonnet-4-0"),
        ("openai", "gpt-4o", "0.002875", "openai/gpt-4o"),
        ("gemini", "gemini-2.5-flash", "0.000415", "google/gemini-2.5-flash"),
    ],
)
def test_the_table_prices_what_was_cached_as_the_provider_does(
    dialect: Dialect, model: str, usd: str, found: str
) -> None:
    cost = PriceList(dialect=dialect, own={}).price(model, USED, NOW)
    assert cost is not None
    assert (cost.usd, cost.priced_on) == (Decimal(usd), "2026-11-05")
    assert cost.source.startswith("genai-prices ")
    assert cost.source.endswith(f": {found}")


def test_own_prices_win_over_the_table() -> None:
    cost = PriceList(dialect="openai", own={"gpt-4o": OWN}).price("gpt-4o", USED, NOW)
    assert cost is not None
    assert (cost.usd, cost.source) == (Decimal("0.000095"), "experiment")


def test_a_model_that_nobody_knows_has_no_price() -> None:
    assert PriceList(dialect="openai", own={}).price("my-model", USED, NOW) is None
    assert PriceList(dialect="openai", own={}).bound("my-model", USED, NOW) is None


def test_a_model_of_another_address_is_not_priced_by_its_name() -> None:
    here = PriceList(dialect="openai", base_url="http://127.0.0.1:8000/v1", own={})
    assert here.price("gpt-4o", USED, NOW) is None
    there = PriceList(dialect="openai", base_url="https://api.openai.com/v1", own={})
    assert there.price("gpt-4o", USED, NOW) is not None


def test_a_dearer_tier_costs_more_and_a_cheaper_one_lowers_no_bound() -> None:
    prices = PriceList(dialect="openai", own={})
    plain, dear = (prices.price("gpt-5", USED, NOW, tier=tier) for tier in (None, "priority"))
    assert plain is not None
    assert dear is not None
    assert dear.usd == 2 * plain.usd
    assert prices.bound("gpt-5", USED, NOW, tier="flex") == prices.bound("gpt-5", USED, NOW)
    assert prices.bound("gpt-5", USED, NOW, tier="priority") != prices.bound("gpt-5", USED, NOW)


@given(
    counts=st.tuples(*[st.integers(0, 500_000)] * 5),
    model=st.sampled_from(
        [
            ("anthropic", "claude-sonnet-4-5"),
            ("openai", "gpt-5"),
            ("gemini", "gemini-2.5-pro"),
            ("openai", "own"),
        ]
    ),
)
def test_no_call_costs_more_than_its_bound(counts: tuple[int, ...], model: tuple[Dialect, str]) -> None:
    dialect, name = model
    whole, out, read, write, hour = counts
    prices = PriceList(dialect=dialect, own={"own": OWN})
    used = Tokens(input=whole, output=out, cache_read=read, cache_write=write, cache_write_1h=hour)
    cost, most = prices.price(name, used, NOW), prices.bound(name, Tokens(input=whole, output=out), NOW)
    assert cost is not None
    assert most is not None
    assert 0 <= cost.usd <= most.usd
