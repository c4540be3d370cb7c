"""A gateway's real process that borrows its connections: what is lent reaches whoever it is for."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import httpx
import msgspec
import pytest

from labrunner.gateway.metering.fund import Terms
from labrunner.gateway.process.control import Lend, Stated, ToldCaps
from labrunner.gateway.recording.calljournal import read_calls
from tests.kit.gateway.owning import LOOPBACK, ask, find_daemons, ignore, make_admit, make_hello, own
from tests.kit.gateway.provider import Provider, run_provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def lend_one(instance: str, provider: Provider) -> Lend:
    one = Terms(granted={"connections": Decimal(1)}, elsewhere={})
    return Lend(instance=instance, places={f"{provider.url}/v1": one})


async def test_what_was_meant_for_a_process_before_it_is_not_lent_to_it(
    tmp_path: Path, provider: Provider
) -> None:
    said: asyncio.Queue[Stated] = asyncio.Queue()
    async with own(tmp_path, make_hello(tmp_path, provider.url), said.put_nowait) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path), ignore)
        instance = (await said.get()).instance
        await owner.lend(lend_one("another", provider))
        asking = asyncio.ensure_future(ask(port))
        [waits] = (await said.get()).places.values()
        assert waits.granted == {"connections": Decimal()}
        assert waits.need == {"connections": Decimal(1)}
        assert provider.got == []
        await owner.lend(lend_one(instance, provider))
        assert (await asking).status_code == 200


async def test_what_is_lent_to_a_process_that_is_still_told_what_to_serve_reaches_it(
    tmp_path: Path, provider: Provider
) -> None:
    lent: dict[str, asyncio.Future[None]] = {}

    def lend(stated: Stated) -> None:
        """As soon as it says that it is there, and never again."""
        if stated.instance not in lent:
            lent[stated.instance] = asyncio.ensure_future(owner.lend(lend_one(stated.instance, provider)))

    async with own(tmp_path, make_hello(tmp_path, provider.url), lend) as owner, asyncio.timeout(20):
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path), ignore)
        [pid] = find_daemons(tmp_path)
        os.kill(pid, signal.SIGKILL)
        assert (await ask_again(port)).status_code == 200
        assert len(lent) == 2
    await asyncio.gather(*lent.values())


async def ask_again(port: int) -> httpx.Response:
    while True:
        try:
            answer = await ask(port)
        except httpx.TransportError:
            await asyncio.sleep(0.01)
            continue
        if answer.status_code != 401:
            return answer


async def test_who_dies_while_nobody_is_served_is_said_to_be_gone_and_what_it_used(
    tmp_path: Path, provider: Provider
) -> None:
    said: asyncio.Queue[Stated] = asyncio.Queue()
    hello = make_hello(tmp_path, provider.url, budget=ToldCaps(tokens=10_000))
    async with own(tmp_path, hello, said.put_nowait) as owner, asyncio.timeout(20):
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path), ignore)
        instance = (await said.get()).instance
        lent = {"tokens": Decimal(10_000)}
        money = Terms(granted=lent, elsewhere={"tokens": Decimal()})
        await owner.lend(msgspec.structs.replace(lend_one(instance, provider), money=money))
        assert (await ask(port)).status_code == 200
        await owner.dismiss("one")
        [pid] = find_daemons(tmp_path)
        os.kill(pid, signal.SIGKILL)
        while (last := await said.get()).instance:
            pass
        [call] = read_calls(tmp_path / "trials/one/1")
        assert call.tokens is not None
        assert last.ended[instance]["tokens"] == call.tokens.input + call.tokens.output
