"""Many attempts at once, in front of a provider that takes its time: caps and connections hold."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import httpx
import pytest

from labrunner.gateway.metering.purse import Caps, Purse
from labrunner.gateway.recording.calljournal import open_journal, read_calls
from labrunner.gateway.serving.caller import Caller
from tests.kit.gateway.front import Front, run_gateway
from tests.kit.gateway.provider import Behaviour, Fail, Provider, run_provider

ATTEMPTS = 64
PATH = "/openai/chat/completions"
PRICE = Decimal("0.00042")
"""Of one answer of the kit."""


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        running.dice = Random(5)
        yield running


def make_caller(front: Front, folder: Path, number: int) -> Caller:
    place = folder / f"a{number}"
    place.mkdir()
    purse = Purse(whose="attempt", setting="agent.limits", caps=Caps(requests=4, cost_usd=Decimal("0.01")))
    return replace(
        front.caller, token=f"token-{number}", purses=(purse, front.run), journal=open_journal(place)
    )


async def ask(url: str, caller: Caller, dice: Random) -> list[int]:
    """Five requests one after the other, whole or as streams; what they were answered."""
    given, headers = [], {"authorization": f"Bearer {caller.token}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=60, trust_env=False, verify=False
    ) as client:
        for _ in range(5):
            body = {"model": "gpt-4o", "messages": [], "max_tokens": dice.randint(1, 200)}
            sent = body | ({"stream": True} if dice.random() < 0.5 else {})
            given.append((await client.post(PATH, json=sent)).status_code)
    return given


async def watch(front: Front, cap: Decimal) -> None:
    """What is spent and set aside is within the cap whenever anybody looks."""
    while True:
        both = front.run.spent.plus(front.run.held)
        assert (both.cost_usd or 0) <= cap
        await asyncio.sleep(0)


@pytest.mark.parametrize("cap", [Decimal("0.05"), Decimal("0.5")])
async def test_64_attempts_at_once_keep_every_cap_and_use_up_what_they_may(
    tmp_path: Path, provider: Provider, cap: Decimal
) -> None:
    troubles: list[Behaviour] = [Fail(status=500), Fail(status=429, retry_after="0.05"), "answer", "drop"]
    provider.plan.extend(troubles * 10)
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(
            run_gateway(tmp_path, provider, budget=Caps(cost_usd=cap), max_connections=7, max_retries=5)
        )
        callers = [make_caller(front, tmp_path, number) for number in range(ATTEMPTS)]
        for caller in callers:
            front.callers.add(caller)
            stack.callback(caller.journal.close)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch(front, cap))
            async with asyncio.TaskGroup() as asking:
                tasks = [
                    asking.create_task(ask(front.url, caller, Random(number)))
                    for number, caller in enumerate(callers)
                ]
            watching.cancel()
        statuses = [status for task in tasks for status in task.result()]
        answered = statuses.count(200)
        rows = [row for number in range(ATTEMPTS) for row in read_calls(tmp_path / f"a{number}")]
        assert set(statuses) <= {200, 402, 502}
        assert front.run.spent.cost_usd == answered * PRICE <= cap
        assert sum(Decimal(str(row.cost_usd or 0)) for row in rows) == answered * PRICE
        assert front.run.held.cost_usd == 0
        assert len(rows) == ATTEMPTS * 5
        assert provider.peak <= 7
        assert all(caller.purses[0].spent.requests <= 4 for caller in callers)
        if cap < ATTEMPTS * 4 * PRICE:
            # What is left is less than the least request sets aside: some 2,080 tokens in.
            assert cap - answered * PRICE < Decimal("0.0022")
        else:
            assert answered >= ATTEMPTS * 4 - statuses.count(502)
