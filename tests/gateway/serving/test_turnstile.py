"""Connections that several gateways share, who hear late of each other."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labrunner.gateway.metering.fund import Fund, Statement, Terms
from labrunner.gateway.serving.turnstile import CONNECTIONS, BorrowedSlots

TURNS = 12
"""Of the event loop, in which nothing is left that could go on at once."""


class World:
    """One fund of connections, its gateways, and a clock that stands still while anybody can go on."""

    def __init__(self, cap: int, count: int, seed: int = 0, delay: int = 1) -> None:
        self.cap, self.delay, self.dice = cap, delay, Random(seed)
        self.fund = Fund({CONNECTIONS: Decimal(cap)}, is_even=True)
        self.now = 0
        self.sleeping: list[tuple[int, asyncio.Future[None]]] = []
        self.gateways = [Gateway(self, f"g{number}") for number in range(count)]

    async def sleep(self, ticks: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleeping.append((self.now + ticks, future))
        await future

    async def tick(self) -> None:
        self.now += 1
        due = [future for when, future in self.sleeping if when <= self.now and not future.done()]
        self.sleeping = [each for each in self.sleeping if each[0] > self.now]
        for future in due:
            future.set_result(None)
        await self.go_on()
        for each in self.gateways:
            each.deliver()
        await self.go_on()
        assert sum(each.used for each in self.gateways) <= self.cap
        assert self.fund.find_free(CONNECTIONS) >= 0

    async def go_on(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def hear(self, name: str, said: Statement) -> None:
        self.fund.hear(name, said)
        self.fund.dispense()
        for each in self.gateways:
            if each.name in self.fund.loans:
                each.tell(self.fund.write_terms(each.name))


@dataclass
class Gateway:
    """A node's gateway and its agents, with what is on its way to it and from it."""

    world: World
    name: str
    used: int = 0
    served: int = 0
    slots: BorrowedSlots = field(init=False)
    under_way: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)
    heard: Terms | None = None
    is_due: bool = False
    agents: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = BorrowedSlots(self.look)

    def add(self, count: int, ticks: int, calls: int = 1_000_000) -> None:
        self.agents += [asyncio.create_task(self.call(ticks, calls)) for _ in range(count)]

    async def call(self, ticks: int, calls: int) -> None:
        for _ in range(calls):
            async with self.slots:
                self.used += 1
                try:
                    await self.world.sleep(ticks)
                finally:
                    self.used -= 1
            self.served += 1

    def look(self) -> None:
        if not self.is_due:
            self.is_due = True
            asyncio.get_running_loop().call_soon(self.state)

    def state(self) -> None:
        self.is_due = False
        is_idle = all(each.done() for each in self.agents)
        if (said := self.slots.allotment.state(self.slots.tell_use(), is_idle=is_idle)) is not None:
            self.send(lambda: self.world.hear(self.name, said))

    def tell(self, terms: Terms) -> None:
        if terms != self.heard:
            self.heard = terms
            self.send(lambda: self.hear(terms))

    def hear(self, terms: Terms) -> None:
        self.slots.allotment.take(terms)
        self.slots.let_in()

    def send(self, what: Callable[[], None]) -> None:
        when = self.world.now + self.world.dice.randint(1, self.world.delay)
        self.under_way.append((when, what))

    def deliver(self) -> None:
        while self.under_way and self.under_way[0][0] <= self.world.now:
            self.under_way.popleft()[1]()


@pytest.mark.parametrize(
    ("cap", "agents"), [(4, [20, 20]), (4, [8, 8]), (4, [40, 2]), (1, [3, 3]), (2, [5, 5, 5]), (10, [30] * 3)]
)
async def test_of_gateways_that_always_want_more_each_has_its_share(cap: int, agents: list[int]) -> None:
    world = World(cap, len(agents))
    for number, (gateway, count) in enumerate(zip(world.gateways, agents, strict=True)):
        gateway.add(count, ticks=10)
        for _ in range(25 if number == 0 else 0):  # the first has everything when the others come
            await world.tick()
    assert world.gateways[0].used == cap
    before = [each.served for each in world.gateways]
    for _ in range(1_000):
        await world.tick()
    served = [each.served - was for each, was in zip(world.gateways, before, strict=True)]
    at_most = 100 * cap
    assert min(served) >= at_most / len(agents) * 0.6, served
    assert sum(served) >= at_most * (0.7 if cap < len(agents) else 0.9), served  # each call may wait for word
    for each in [agent for gateway in world.gateways for agent in gateway.agents]:
        each.cancel()


@settings(max_examples=100, deadline=None)
@given(
    cap=st.integers(1, 6),
    agents=st.lists(
        st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), max_size=6), min_size=1, max_size=4
    ),
    given_up=st.dictionaries(st.integers(0, 60), st.integers(0, 23), max_size=6),
    seed=st.integers(0, 999),
    delay=st.integers(1, 5),
)
def test_there_are_never_more_than_there_may_be_and_nobody_waits_for_ever(
    cap: int, agents: list[list[tuple[int, int]]], given_up: dict[int, int], seed: int, delay: int
) -> None:
    asyncio.run(play(World(cap, len(agents), seed, delay), agents, given_up))


async def play(world: World, agents: list[list[tuple[int, int]]], given_up: dict[int, int]) -> None:
    for gateway, theirs in zip(world.gateways, agents, strict=True):
        for ticks, calls in theirs:
            gateway.add(1, ticks, calls)
    everybody = [each for gateway in world.gateways for each in gateway.agents]
    work = sum(calls * (ticks + 4 * world.delay) for theirs in agents for ticks, calls in theirs)
    for _ in range(work + 100):  # as if there was one connection, and word of it went to and fro each time
        await world.tick()
        if everybody and world.now in given_up:
            everybody[given_up[world.now] % len(everybody)].cancel()
    assert [each for each in everybody if not each.done()] == []
    assert world.fund.find_free(CONNECTIONS) == world.cap
