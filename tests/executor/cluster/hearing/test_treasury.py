"""Lending to the gateways of nodes, on a made-up cluster whose nodes do nothing but borrow."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from labrunner.executor.cluster.hearing.treasury import Treasury
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.rayport import NodeLost, RayNode, RayWorker
from labrunner.executor.cluster.tidings import Begun, WorkerHello, decode, encode
from labrunner.experiment.resolved import ModelEntry
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.gateway.metering.fund import Amounts, Statement
from labrunner.gateway.metering.lentrecord import LentRecord, LentTo, read_lent, write_lent
from labrunner.gateway.process.control import Lend, Stated
from labrunner.gateway.process.refilling import begin_away
from labrunner.gateway.recording.calljournal import open_journal
from labrunner.policy.budget import Budget
from labrunner.records.facts.model_call import CallTokens
from labrunner.trial.assignment import TrialContext
from tests.kit.builders import make_experiment, make_policy, make_variant
from tests.kit.executor.madenodes import MadeCluster, MadeNode, MadeWorker
from tests.kit.executor.madeowners import QUICK, until
from tests.kit.gateway.callrows import make_row

NAME, PLACE = "n1", "https://provider"


class BorrowingWorker(MadeWorker):
    """Speaks for a gateway: says what the test has it say, and keeps what it is lent."""

    def __init__(self, node: MadeNode) -> None:
        super().__init__(node)
        self.says: asyncio.Queue[bytes] = asyncio.Queue()
        self.lent: list[Lend] = []
        self.breaks = False

    def say(self, instance: str, **more: Any) -> None:
        self.says.put_nowait(encode(Stated(instance=instance, **more)))

    async def tell(self, name: str, *words: object) -> None:
        if name != "lend":
            await super().tell(name, *words)
            return
        if self.breaks:
            raise NodeLost("its worker broke over 'lend': ValueError")
        (lend,) = words
        assert isinstance(lend, bytes)
        self.lent.append(decode(lend, Lend))

    async def stream(self, name: str, *words: object) -> AsyncIterator[bytes]:
        assert (name, words) == ("statements", ())
        while True:
            yield await self._alive(self.says.get())


@dataclass(slots=True)
class LendingCluster(MadeCluster):
    """Its workers borrow."""

    workers: list[BorrowingWorker] = field(default_factory=list)

    def start_worker(self, node: RayNode) -> BorrowingWorker:
        worker = BorrowingWorker(self.nodes[node.name])
        self.nodes[node.name].worker = worker
        worker.say("")
        self.workers.append(worker)
        return worker


class Lending:
    """A coordinator's treasury, and its nodes."""

    def __init__(self, folder: Path, budget: Budget) -> None:
        self.cluster = LendingCluster(names=(NAME,))
        self.gateway, trials = folder / "gateway", folder / "trials"
        trials.mkdir()
        variant = make_variant(models=(ModelEntry(name="main", dialect="openai", key="K"),))
        experiment = make_experiment(variants=(variant,), policy=make_policy(budget=budget))
        context = TrialContext(experiment=experiment, run_id="r", trials_dir=trials, host="h", secrets={})
        self.nodes = Nodes(ExecutorPlan(), self._prepare, self._begin, port=self.cluster, pace=QUICK)
        self.treasury = Treasury(context, self.nodes)

    async def start(self) -> BorrowingWorker:
        await self.nodes.open()
        return self.cluster.workers[-1]

    async def close(self) -> None:
        await self.nodes.close()
        await self.treasury.close()

    async def _prepare(self) -> None:
        return

    async def _begin(self, worker: RayWorker, node: str, hello: WorkerHello) -> Begun:
        del hello
        await self.treasury.attend(node, worker)
        return Begun(places=1, trials_dir="/")


@pytest.fixture
async def lending(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lending]:
    made = Lending(tmp_path, getattr(request, "param", Budget(cost_usd=None, tokens=None)))
    yield made
    await made.close()


def ask_for(need: int, name: str = "connections") -> Statement:
    none: Amounts = {name: Decimal()}
    return Statement(granted=none, returned=none, spent=none, need={name: Decimal(need)})


def ask_place(need: int) -> dict[str, Any]:
    return {"places": {PLACE: ask_for(need)}, "most": {PLACE: 4}}


def list_places(worker: BorrowingWorker) -> list[tuple[str, Decimal]]:
    """Who was lent how many connections, each time."""
    return [
        (lend.instance, lend.places[PLACE].granted["connections"])
        for lend in worker.lent
        if PLACE in lend.places
    ]


async def test_a_gateway_is_lent_what_the_one_before_it_had_just_the_same(lending: Lending) -> None:
    worker = await lending.start()
    worker.say("first", **ask_place(1))
    await until(lambda: bool(list_places(worker)))
    worker.say("second", **ask_place(1))
    await until(lambda: len(list_places(worker)) == 2)
    assert list_places(worker) == [("first", Decimal(1)), ("second", Decimal(1))]


@pytest.mark.parametrize("lending", [Budget(cost_usd=None, tokens=100)], indirect=True)
async def test_where_the_disk_is_full_it_is_lent_later(lending: Lending) -> None:
    worker = await lending.start()
    worker.say("first", money=ask_for(0, "tokens"))
    await until(lambda: any(lend.money is not None for lend in worker.lent))
    away = lending.gateway.rename(lending.gateway.with_name("away"))
    lending.gateway.write_text("in the way")  # nothing can be written below a file
    heard = len(worker.lent)
    worker.say("first", money=ask_for(5, "tokens"))
    await asyncio.sleep(0.1)
    assert worker.lent[heard:] == []
    lending.gateway.unlink()
    away.rename(lending.gateway)
    await until(lambda: len(worker.lent) > heard)
    money = worker.lent[-1].money
    assert money is not None
    assert money.granted["tokens"] == 5
    assert read_lent(lending.gateway).lent["first"].loan.granted["tokens"] == 5
    assert lending.cluster.workers == [worker]


@pytest.mark.parametrize("what", ["the lending breaks", "what is said is garbled", "it names no limit"])
async def test_a_worker_that_does_not_speak_for_its_gateway_any_more_is_followed_by_the_next(
    lending: Lending, what: str
) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    worker = await lending.start()
    match what:
        case "the lending breaks":
            worker.breaks = True
            worker.say("first", **ask_place(1))
        case "what is said is garbled":
            worker.says.put_nowait(b"\xc1")  # no message at all
        case _:
            worker.say("first", places=ask_place(1)["places"])
    await until(lambda: len(lending.cluster.workers) > 1 and lending.nodes.find(NAME) is not None)
    assert worker.is_dead
    heir = lending.cluster.workers[-1]
    heir.say("second", **ask_place(1))
    await until(lambda: list_places(heir) == [("second", Decimal(1))])
    assert len(told) == (not worker.breaks)  # only what may be a mistake of ours is told as one


@pytest.mark.parametrize("lending", [Budget(cost_usd=None, tokens=100)], indirect=True)
async def test_each_call_is_counted_once_by_who_goes_on_wherever_the_one_before_died(
    lending: Lending,
) -> None:
    trials = lending.gateway.with_name("trials")
    spent = {"tokens": Decimal(30)}
    ended = Statement(granted={"tokens": Decimal(40)}, returned={"tokens": Decimal(10)}, spent=spent)
    write_lent(lending.gateway, LentRecord(lent={"first": LentTo(node="gone", loan=ended)}))
    call(trials / "t0/1", tokens=7)  # paid here
    begin_away(trials / "t1/1", ("tokens",), make(trials / "t1/1"))
    call(trials / "t1/1", tokens=30)  # of what was lent
    make(trials / "t1/.1.home")
    call(trials / "t1/.1.home", tokens=30)  # left by who was killed
    worker = await lending.start()
    worker.say("second", money=ask_for(63, "tokens"))
    await until(lambda: any(lend.money is not None for lend in worker.lent))
    money = worker.lent[-1].money
    assert money is not None
    assert money.elsewhere["tokens"] == 37
    assert money.granted["tokens"] == 63


@pytest.mark.parametrize("lending", [Budget(cost_usd=None, tokens=100)], indirect=True)
async def test_what_was_lent_of_what_is_limited_no_more_is_not_forgotten(lending: Lending) -> None:
    spent = {"cost_usd": Decimal(3)}
    loan = Statement(granted={"cost_usd": Decimal(5)}, returned={"cost_usd": Decimal(2)}, spent=spent)
    write_lent(lending.gateway, LentRecord(lent={"first": LentTo(node=NAME, loan=loan)}))
    worker = await lending.start()
    worker.say("first", money=ask_for(7, "tokens"))
    await until(lambda: any(lend.money is not None for lend in worker.lent))
    known = read_lent(lending.gateway).lent["first"].loan
    assert known.granted == {"cost_usd": Decimal(5), "tokens": Decimal(7)}
    assert known.returned["cost_usd"] == 2
    assert known.spent["cost_usd"] == 3


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def call(folder: Path, tokens: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    journal = open_journal(folder)
    journal.write(make_row(tokens=CallTokens(input=tokens, output=0, basis="reported")), [])
    journal.close()
