"""A fund and its borrowers, who hear late of each other, die, and may leave no account."""

from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labrunner.gateway.metering.allotment import Allotment, Use
from labrunner.gateway.metering.fund import Amounts, Fund, Statement, Terms

NAMES = ("cost_usd", "tokens")


def both(amount: int | Decimal, tokens: int | Decimal | None = None) -> Amounts:
    return {"cost_usd": Decimal(amount), "tokens": Decimal(amount if tokens is None else tokens)}


def plus(*every: Amounts) -> Amounts:
    return {name: sum((each[name] for each in every), Decimal()) for name in NAMES}


@dataclass
class Borrower:
    """A gateway, with what is on its way to it and from it."""

    name: str
    caps: Amounts
    allotment: Allotment = field(default_factory=lambda: Allotment(*NAMES))
    spent: Amounts = field(default_factory=lambda: both(0))
    held: list[Amounts] = field(default_factory=list)
    waiting: deque[Amounts] = field(default_factory=deque)
    said: deque[Statement] = field(default_factory=deque)
    told: deque[Terms] = field(default_factory=deque)
    refused: int = 0
    is_dead: bool = False

    def ask(self, amount: Amounts) -> None:
        self.waiting.append(amount)
        self.go_on()

    def settle(self, part: float) -> None:
        if self.held:
            held = self.held.pop(0)
            self.spent = plus(self.spent, {name: held[name] * Decimal(part) // 1 for name in NAMES})
            self.go_on()

    def give_up(self) -> None:
        if self.waiting:
            self.waiting.popleft()
            self.go_on()

    def hear(self) -> None:
        if self.told:
            self.allotment.take(self.told.popleft())
            self.go_on()

    def go_on(self) -> None:
        """As a gateway does: refuse what can't fit, let through what does, and say what has to be said."""
        while self.waiting:
            first, used = self.waiting[0], plus(self.spent, *self.held)
            known = plus(self.spent, self.allotment.elsewhere, first)
            if any(known[name] > self.caps[name] for name in NAMES):
                self.refused += 1
            elif self.allotment.has_room(used, first):
                self.held.append(first)
            else:
                break
            self.waiting.popleft()
        wanted = self.waiting[0] if self.waiting else None
        like = {} if wanted is None else {name: 4 * wanted[name] for name in NAMES}
        use = Use(spent=self.spent, held=plus(both(0), *self.held), wanted=wanted, like=like)
        is_idle = not self.held and not self.waiting
        if (said := self.allotment.state(use, is_idle=is_idle)) is not None:
            self.said.append(said)


@dataclass
class World:
    """One fund, its borrowers, and what really is used."""

    cap: int
    fund: Fund = field(init=False)
    everybody: list[Borrower] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fund = Fund(both(self.cap))

    def add(self) -> None:
        self.everybody.append(Borrower(name=f"g{len(self.everybody)}", caps=both(self.cap)))

    def listen(self, borrower: Borrower) -> None:
        if borrower.said:
            self.fund.hear(borrower.name, borrower.said.popleft())
            self.answer()

    def answer(self) -> None:
        self.fund.dispense()
        for each in self.everybody:
            if each.name in self.fund.loans:
                each.told.append(self.fund.write_terms(each.name))

    def die(self, borrower: Borrower, *, leaves_account: bool) -> None:
        """What it said is still heard, or is not; what it holds counts as spent."""
        borrower.is_dead = True
        borrower.spent = plus(borrower.spent, *borrower.held)
        borrower.held.clear()
        borrower.waiting.clear()
        borrower.said.clear()
        if leaves_account:
            self.fund.settle(borrower.name, borrower.spent)
        else:
            self.fund.lose(borrower.name)
        self.answer()

    def check(self) -> None:
        for name in NAMES:
            used = sum(plus(each.spent, *each.held)[name] for each in self.everybody)
            assert used <= self.cap
            assert self.fund.find_free(name) >= 0

    def drain(self) -> None:
        """Nothing new; all that is under way comes to its end."""
        living = [each for each in self.everybody if not each.is_dead]
        while any(each.said or each.told or each.held for each in living):
            for each in living:
                self.listen(each)
                each.hear()
                each.settle(0.5)
                self.check()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "settle", "settle", "say", "say", "hear", "hear", "give up"]),
        st.integers(0, 3),
        st.integers(1, 12),
        st.sampled_from([0.0, 0.3, 1.0]),
    ),
    max_size=120,
)
DEATHS = st.dictionaries(st.integers(0, 120), st.tuples(st.integers(0, 3), st.booleans()), max_size=3)


def play(world: World, steps: list[tuple[str, int, int, float]], deaths: dict[int, tuple[int, bool]]) -> None:
    for number, (word, who, size, part) in enumerate(steps):
        if number in deaths:
            whose, leaves_account = deaths[number]
            if not (doomed := world.everybody[whose % len(world.everybody)]).is_dead:
                world.die(doomed, leaves_account=leaves_account)
                world.add()
        each = world.everybody[who % len(world.everybody)]
        if each.is_dead:
            continue
        match word:
            case "ask":
                each.ask(both(size, size * 2))
            case "settle":
                each.settle(part)
            case "say":
                world.listen(each)
            case "hear":
                each.hear()
            case _:
                each.give_up()
        world.check()


@settings(max_examples=300, deadline=None)
@given(cap=st.integers(1, 150), borrowers=st.integers(1, 4), steps=STEPS, deaths=DEATHS)
def test_never_more_is_lent_than_there_is_and_all_comes_back_or_counts_as_spent(
    cap: int, borrowers: int, steps: list[tuple[str, int, int, float]], deaths: dict[int, tuple[int, bool]]
) -> None:
    world = World(cap)
    for _ in range(borrowers):
        world.add()
    play(world, steps, deaths)
    world.drain()
    living = [each for each in world.everybody if not each.is_dead]
    assert [each.name for each in living if each.waiting] == []  # nobody waits for ever
    loans = world.fund.loans
    for name in NAMES:
        known = [(loans[each.name], each) for each in world.everybody if each.name in loans]
        unaccounted = sum(loan.spent[name] - each.spent[name] for loan, each in known)
        assert unaccounted >= 0
        spent = sum(each.spent[name] for each in world.everybody)
        assert world.fund.find_free(name) == world.cap - spent - unaccounted
        assert unaccounted == 0 or not all(leaves_account for _, leaves_account in deaths.values())


@settings(max_examples=100, deadline=None)
@given(cap=st.integers(1, 60), steps=STEPS)
def test_of_those_who_hear_at_once_none_is_refused_what_would_fit(
    cap: int, steps: list[tuple[str, int, int, float]]
) -> None:
    world = World(cap)
    world.add()
    world.add()
    for word, who, size, part in steps:
        each = world.everybody[who % 2]
        before = sum(other.refused for other in world.everybody)
        if word == "ask":
            each.ask(both(size))
        elif word == "settle":
            each.settle(part)
        settle_all_messages(world)
        spent = sum(other.spent["cost_usd"] for other in world.everybody)
        if sum(other.refused for other in world.everybody) > before:
            assert spent + 12 > cap  # none asks for more than twelve
    world.drain()


def settle_all_messages(world: World) -> None:
    while any(each.said or each.told for each in world.everybody):
        for each in world.everybody:
            world.listen(each)
            each.hear()


def test_a_slice_is_enough_for_many_requests() -> None:
    world = World(10_000)
    world.add()
    world.add()
    first = world.everybody[0]
    said = 0
    for _ in range(20):
        first.ask(both(10))
        said += len(first.said)
        settle_all_messages(world)
        first.held, first.spent = [both(0)], plus(first.spent, both(1))
    assert said <= 4


def test_whoever_waits_has_the_others_give_back_what_they_do_not_use() -> None:
    world = World(100)
    world.add()
    world.add()
    one, two = world.everybody
    one.ask(both(10))
    settle_all_messages(world)
    assert world.fund.find_free("cost_usd") < 90
    two.ask(both(90))
    settle_all_messages(world)
    assert two.held == [both(90)]
    assert world.fund.find_free("cost_usd") == 0


def test_what_would_fit_if_others_took_less_waits_and_what_would_not_is_refused() -> None:
    world = World(100)
    world.add()
    world.add()
    one, two = world.everybody
    one.ask(both(60))
    settle_all_messages(world)
    two.ask(both(60))
    settle_all_messages(world)
    assert (len(two.waiting), two.refused) == (1, 0)
    one.settle(1.0)
    settle_all_messages(world)
    assert (len(two.waiting), two.refused) == (0, 1)


@pytest.mark.parametrize("leaves_account", [True, False])
def test_what_a_borrower_had_that_is_lost_is_free_or_spent(leaves_account: bool) -> None:
    world = World(100)
    world.add()
    world.add()
    one, two = world.everybody
    one.ask(both(20))
    settle_all_messages(world)
    lent = world.fund.loans[one.name].granted["cost_usd"]
    assert lent > 20
    world.die(one, leaves_account=leaves_account)
    assert world.fund.find_free("cost_usd") == 100 - (20 if leaves_account else lent)
    two.ask(both(90))
    settle_all_messages(world)
    assert two.refused == 1


def test_an_answer_dearer_than_its_bound_is_told_though_nobody_waits() -> None:
    world = World(100)
    world.add()
    one = world.everybody[0]
    one.ask(both(60))
    settle_all_messages(world)
    lent = world.fund.loans[one.name].granted["cost_usd"]
    one.held, one.spent = [], both(lent)
    one.go_on()
    assert not one.said  # it is taken to be gone already
    one.spent = both(lent + 5)
    one.go_on()
    settle_all_messages(world)
    assert world.fund.find_free("cost_usd") == 95 - lent


def test_one_that_nobody_knew_has_what_it_says() -> None:
    fund = Fund({"connections": Decimal(4)})
    known = {"connections": Decimal(3)}
    fund.hear("g", Statement(granted=known, returned={}, spent={}))
    assert fund.find_free("connections") == 1


def test_a_borrower_that_was_given_up_and_is_heard_again_has_what_it_says() -> None:
    fund = Fund({"connections": Decimal(2)}, is_even=True)
    two = {"connections": Decimal(2)}
    none = {"connections": Decimal()}
    asking = Statement(granted=none, returned=none, spent=none, need=two)
    fund.hear("one", asking)
    fund.dispense()
    fund.settle("one", {})
    assert fund.find_free("connections") == 2
    fund.hear("two", asking)
    fund.dispense()
    fund.hear("one", Statement(granted=two, returned=none, spent=none))
    assert fund.find_free("connections") == -2  # more than there are, until one of them gives back
    fund.hear("three", asking)
    assert not fund.dispense()
    fund.hear("one", Statement(granted=two, returned=two, spent=none))
    fund.hear("two", Statement(granted=two, returned=two, spent=none))
    assert fund.dispense()


def test_what_is_said_late_of_what_was_given_back_does_no_harm() -> None:
    fund = Fund({"connections": Decimal(2)})
    none, one, two = ({"connections": Decimal(number)} for number in range(3))
    fund.hear("one", Statement(granted=none, returned=none, spent=none, need=two))
    fund.dispense()
    fund.hear("one", Statement(granted=two, returned=one, spent=none))
    fund.hear("one", Statement(granted=two, returned=none, spent=none))
    assert fund.find_free("connections") == 1
