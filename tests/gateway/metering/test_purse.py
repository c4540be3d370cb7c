import asyncio
import re
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labrunner.gateway.metering.purse import CapReached, Caps, Hold, Purse, Taking, Unpriced, reserve


def make_purse(whose: str = "attempt", **caps: object) -> Purse:
    return Purse(whose=whose, setting="agent.limits", caps=Caps(**caps))  # type: ignore[arg-type]  # by the test


def cost(usd: str, tokens: int = 0) -> Taking:
    return Taking(cost_usd=Decimal(usd), tokens=tokens, requests=1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    caps=st.tuples(st.integers(1, 400), st.integers(1, 400), st.integers(1, 90)),
    attempts=st.integers(1, 8),
)
async def test_64_at_once_never_exceed_a_cap_and_use_up_what_they_may(
    seed: int, caps: tuple[int, int, int], attempts: int
) -> None:
    random, money = Random(seed), Decimal(caps[0])
    run = make_purse("run", cost_usd=money, tokens=caps[1], requests=caps[2])
    purses = [make_purse(cost_usd=money / 2) for _ in range(attempts)]
    refused: list[CapReached] = []

    async def call(purse: Purse) -> None:
        most = random.randint(1, 20)
        try:
            hold = await reserve([purse, run], Taking(cost_usd=Decimal(most), tokens=most, requests=1))
        except CapReached as reached:
            refused.append(reached)
            return
        for _ in range(random.randint(0, 3)):
            await asyncio.sleep(0)
            for each in (purse, run):
                both = each.spent.plus(each.held)
                assert (both.cost_usd or 0) <= (each.caps.cost_usd or 0)
        took = random.randint(0, most)
        hold.settle(Taking(cost_usd=Decimal(took), tokens=took, requests=1))

    async with asyncio.TaskGroup() as group:
        for number in range(64):
            group.create_task(call(purses[number % attempts]))
    assert (run.spent.cost_usd or 0) <= money
    assert run.spent.tokens <= caps[1]
    assert run.spent.requests == 64 - len(refused) <= caps[2]
    assert run.held == Taking()
    assert run.spent.cost_usd == sum(purse.spent.cost_usd or 0 for purse in purses)


async def test_a_request_waits_while_those_in_flight_may_leave_room() -> None:
    purse = make_purse(cost_usd=Decimal(2))
    first = await reserve([purse], cost("1.5"))
    waiting = asyncio.ensure_future(reserve([purse], cost("1.5")))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.settle(cost("0.5"))
    (await waiting).settle(cost("1.5"))
    assert purse.spent.cost_usd == 2


async def test_one_that_waits_is_refused_once_it_can_fit_no_more() -> None:
    purse = make_purse(cost_usd=Decimal(2))
    first = await reserve([purse], cost("1.5"))
    waiting = asyncio.ensure_future(reserve([purse], cost("1.5")))
    await asyncio.sleep(0)
    first.settle(cost("1"))
    with pytest.raises(CapReached):
        await waiting


async def test_one_that_stops_waiting_leaves_nothing_behind() -> None:
    purse = make_purse(cost_usd=Decimal(2))
    first = await reserve([purse], cost("2"))
    waiting = asyncio.ensure_future(reserve([purse], cost("1")))
    await asyncio.sleep(0)
    waiting.cancel()
    first.settle(cost("0"))
    assert purse.held == Taking()
    assert isinstance(await reserve([purse], cost("2")), Hold)


@pytest.mark.parametrize(
    ("purse", "taking", "limit", "told"),
    [
        (
            make_purse(cost_usd=Decimal(2)),
            cost("2.5"),
            "cost",
            "the attempt's cap of 2 USD is reached: nothing spent, and this request can cost 2.5; "
            "to allow more, raise agent.limits.cost_usd",
        ),
        (
            make_purse(tokens=10),
            cost("0", tokens=11),
            "tokens",
            "the attempt's cap of 10 tokens is reached: 0 used, and this request can take 11; "
            "to allow more, raise agent.limits.tokens",
        ),
        (
            make_purse(requests=0),
            cost("0"),
            "requests",
            "the attempt's cap of 0 requests is reached: 0 made; to allow more, raise agent.limits.requests",
        ),
    ],
)
async def test_a_cap_that_is_reached_says_which_and_what_to_do(
    purse: Purse, taking: Taking, limit: str, told: str
) -> None:
    with pytest.raises(CapReached) as caught:
        await reserve([purse], taking)
    assert (caught.value.limit, str(caught.value)) == (limit, told)
    assert purse.reached is caught.value


async def test_a_model_without_a_price_reaches_no_cap_and_says_what_to_do() -> None:
    purse = make_purse(cost_usd=Decimal(2))
    told = "the attempt's cap of 2 USD can't be held: this model has no price; give it one under `prices`"
    with pytest.raises(Unpriced, match=re.escape(told)):
        await reserve([purse], Taking(cost_usd=None, requests=1))
    assert purse.reached is None


async def test_a_model_without_a_price_passes_where_money_is_not_capped() -> None:
    purse = make_purse(tokens=10)
    hold = await reserve([purse], Taking(cost_usd=None, tokens=5, requests=1))
    hold.settle(Taking(cost_usd=None, tokens=4, requests=1))
    assert purse.spent == Taking(cost_usd=Decimal(), tokens=4, requests=1)


async def test_a_reservation_is_settled_once() -> None:
    hold = await reserve([make_purse()], cost("1"))
    hold.settle(cost("1"))
    with pytest.raises(RuntimeError, match="settled twice"):
        hold.settle(cost("1"))
