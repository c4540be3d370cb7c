"""Nodes that are slow to begin, hang, or go at a bad moment, on a made-up cluster."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.errors import SandboxFailed
from labrunner.executor.cargo import Cargo, OwnCode
from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.cluster.rayport import NodeLost
from labrunner.experiment.resolved import Folder
from labrunner.records.completion import Graded
from tests.kit.executor.madenodes import MadeCluster
from tests.kit.executor.madeowners import IMPATIENT, NO_WATCH, QUICK, Owners, Quiet, until

GIVES_UP = replace(QUICK, head_s=0.05)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[MadeCluster]:
    made = MadeCluster(names=("n1", "n2"), per_node=4, takes_s=0.2)
    yield made
    made.close()


async def test_a_node_whose_worker_does_not_begin_at_once_is_asked_what_lives_there_all_the_same(
    owners: Owners, cluster: MadeCluster
) -> None:
    mine = owners.assign(0)
    refusals = [NodeLost("killed")] * 3 + [SandboxFailed("node_taken", "not free yet")]
    await owners.leave(mine)
    (home,) = [node.name for node in cluster.nodes.values() if node.containers]

    async def refuse(node: str, name: str) -> None:
        if node == home and name == "begin" and refusals:
            raise refusals.pop(0)

    cluster.on_call = refuse
    found = await owners.make(NO_WATCH).survivors()
    assert refusals == []
    assert [each.token for each in found] == [mine.token]


@pytest.mark.parametrize("at", ["introduce", "survivors"])
async def test_a_node_that_never_says_what_lives_there_stops_whoever_asks(
    at: str, owners: Owners, cluster: MadeCluster
) -> None:
    await owners.leave(owners.assign(0))

    async def die(node: str, name: str) -> None:
        if node == "n2" and name == at:
            cluster.nodes[node].kill_worker()

    cluster.on_call = die
    with pytest.raises(SandboxFailed, match=r"node n2 does not say what lives there.*ray stop"):
        await owners.make(NO_WATCH).survivors()


async def test_a_node_where_nothing_was_under_way_need_not_say_what_lives_there(
    owners: Owners, cluster: MadeCluster
) -> None:
    mine = owners.assign(0)
    await owners.leave(mine)
    (home,) = [node.name for node in cluster.nodes.values() if node.containers]

    async def refuse(node: str, name: str) -> None:
        if node != home and name == "begin":
            raise SandboxFailed("node_version", "labrunner is not installed there")

    cluster.on_call = refuse
    executor = owners.make(NO_WATCH)
    executor.expect(frozenset({home}))
    assert [each.token for each in await executor.survivors()] == [mine.token]
    with pytest.raises(SandboxFailed, match="does not say what lives there"):
        await owners.make(NO_WATCH).survivors()


@pytest.mark.parametrize("is_needed", [False, True])
async def test_an_engine_that_does_not_answer_stops_only_who_needs_its_node(
    owners: Owners, cluster: MadeCluster, *, is_needed: bool
) -> None:
    async def refuse(node: str, name: str) -> None:
        if node == "n2" and name in {"survivors", "reap"}:
            raise SandboxFailed("engine", "the engine does not answer")

    cluster.on_call = refuse
    executor = owners.make(NO_WATCH)
    executor.expect(frozenset({"n1", "n2"} if is_needed else {"n1"}))
    for ask in (executor.survivors(), executor.reap(frozenset())):
        with pytest.raises(SandboxFailed, match="engine does not answer") if is_needed else nullcontext():
            await ask


async def test_a_node_that_is_stopped_while_it_is_asked_is_waited_for_no_longer(
    owners: Owners, cluster: MadeCluster
) -> None:
    async def leave(node: str, name: str) -> None:
        if node == "n2" and name == "introduce":
            cluster.nodes[node].leave()

    cluster.on_call = leave
    assert await owners.make(NO_WATCH).survivors() == ()


async def test_a_node_that_can_not_be_used_does_not_keep_the_others_from_being_swept(
    owners: Owners, cluster: MadeCluster
) -> None:
    await owners.leave(owners.assign(0))
    (home,) = [node.name for node in cluster.nodes.values() if node.containers]

    async def refuse(node: str, name: str) -> None:
        if node != home and name == "begin":
            raise SandboxFailed("node_version", "has another version")

    cluster.on_call = refuse
    assert await owners.make(NO_WATCH).reap(frozenset()) == 1


@pytest.mark.parametrize("at", ["introduce", "lacks"])
async def test_a_node_that_can_not_be_told_all_when_it_joins_is_tried_again_later_and_the_others_are_used(
    at: str, owners: Owners, cluster: MadeCluster, tmp_path: Path
) -> None:
    (tmp_path / "agent").mkdir()
    folder = Folder(path=str(tmp_path / "agent"), digest="sha256:0")
    (variant,) = owners.experiment.variants
    variant = replace(variant, agent=replace(variant.agent, dir=folder))
    owners.experiment = replace(owners.experiment, variants=(variant,))
    cluster.lacks_all = True
    asked: Counter[str] = Counter()

    async def fail(node: str, name: str) -> None:
        asked[f"{node} {name}"] += 1
        if node == "n2" and name == at == "introduce":
            cluster.nodes[node].hello = b"of another version"

    cluster.on_call = fail
    cluster.nodes["n2"].leave()
    executor = owners.make(replace(QUICK, again_s=3600.0, latest_s=3600.0))
    await executor.open(lambda: None)
    (tmp_path / "agent").rmdir()
    cluster.nodes["n2"].come_back()
    await until(lambda: asked["n2 introduce"] > 0)
    looks = cluster.looks
    await until(lambda: cluster.looks > looks + 20)
    assert asked["n2 introduce"] == 1
    (told,) = [check for check in await executor.preflight() if not check.passed]
    assert told.node == "n2"
    assert ("not known here" if at == "introduce" else str(tmp_path / "agent")) in told.message


async def test_what_a_worker_that_hangs_was_at_is_gone_on_with_by_the_next_one(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor, mine = owners.make(IMPATIENT), owners.assign(0)
    work = owners.begin(executor, mine)
    await until(lambda: bool(cluster.begun[mine.trial_id]))
    for node in cluster.nodes.values():
        node.hang_worker()
    async with asyncio.timeout(10):
        completion = await work
    assert isinstance(completion.end, Graded), completion.end
    assert cluster.begun[mine.trial_id] == [mine.token]


@pytest.mark.parametrize("at", ["lacks", "begin", "preflight"])
async def test_a_node_that_hangs_while_it_is_tried_keeps_nobody_waiting(
    at: str, owners: Owners, cluster: MadeCluster
) -> None:
    async def hang(node: str, name: str) -> None:
        if node == "n2" and name == at:
            cluster.nodes[node].hang_worker()

    cluster.on_call = hang
    executor = owners.make(replace(IMPATIENT, silence_s=1.0, again_s=3600.0, latest_s=3600.0))
    async with asyncio.timeout(30):
        checks = await executor.preflight()
        await executor.open(lambda: None)
    assert executor.places == 4
    (failed,) = [check for check in checks if not check.passed]
    assert failed.node == "n2"
    assert "answered nothing for 1 s" in failed.message


async def test_a_worker_that_does_not_end_a_cancelled_attempt_is_ended_and_the_next_one_sweeps(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor, mine = owners.make(replace(IMPATIENT, silence_s=3600.0)), owners.assign(0)
    cluster.takes_s = 60.0
    work = owners.begin(executor, mine)
    await until(lambda: any(node.containers for node in cluster.nodes.values()))
    for node in cluster.nodes.values():
        node.hang_worker()
    work.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([work])
    assert work.cancelled()
    await until(lambda: not any(node.containers for node in cluster.nodes.values()))
    assert cluster.swept == {mine.token}


async def test_who_is_cancelled_while_workers_end_hears_of_it_once_they_have(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor = owners.make(replace(QUICK, close_s=0.3))
    await executor.open(lambda: None)
    workers = [node.worker for node in cluster.nodes.values()]
    for node in cluster.nodes.values():
        node.hang_worker()
    closing = asyncio.ensure_future(executor.close())
    await asyncio.wait([closing], timeout=0.05)
    closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
    assert [worker is not None and worker.is_dead for worker in workers] == [True, True]


async def test_a_head_that_is_away_is_a_failure_with_a_sentence(owners: Owners, cluster: MadeCluster) -> None:
    cluster.head_is_away = True
    (check,) = await owners.make(GIVES_UP).preflight()
    assert not check.passed
    assert "head has not answered" in check.message
    asks: list[Callable[[RayExecutor], Awaitable[object]]]
    asks = [RayExecutor.survivors, lambda executor: executor.reap(frozenset())]
    for ask in asks:
        with pytest.raises(SandboxFailed, match="head has not answered"):
            await ask(owners.make(GIVES_UP))
    executor = owners.make(GIVES_UP)
    await executor.open(lambda: None)
    assert "head has not answered" in executor.end


async def test_a_head_that_is_back_soon_costs_nothing(owners: Owners, cluster: MadeCluster) -> None:
    cluster.head_is_away = True
    executor = owners.make(replace(GIVES_UP, head_s=30.0))
    asking = asyncio.ensure_future(executor.survivors())
    await asyncio.sleep(0.05)
    assert not asking.done()
    cluster.head_is_away = False
    assert await asking == ()


async def test_a_node_whose_worker_dies_at_preflight_is_tried_again_later_and_later(
    owners: Owners, cluster: MadeCluster
) -> None:
    asked: Counter[str] = Counter()

    async def die(node: str, name: str) -> None:
        asked[f"{node} {name}"] += 1
        if node == "n2" and name == "preflight":
            cluster.nodes[node].kill_worker()

    cluster.on_call = die
    executor = owners.make(replace(QUICK, again_s=3600.0, latest_s=3600.0))
    await executor.open(lambda: None)
    looks = cluster.looks
    await until(lambda: cluster.looks > looks + 20)
    assert asked["n2 preflight"] == 1
    assert executor.places == 4


async def test_a_node_that_can_not_be_told_of_its_connection_is_lost_and_its_attempts_are_gone_on_with(
    owners: Owners, cluster: MadeCluster
) -> None:
    refusals = [NodeLost("connection reset")]
    cluster.connections = 1

    async def refuse(node: str, name: str) -> None:
        if name == "acknowledge" and refusals:
            raise refusals.pop()

    cluster.on_call = refuse
    executor, mine = owners.make(), owners.assign(0)
    async with asyncio.timeout(10):
        completion = await executor.carry_out(mine, Quiet())
    assert refusals == []
    assert isinstance(completion.end, Graded), completion.end
    assert cluster.begun[mine.trial_id] == [mine.token]


async def test_closing_ends_what_is_being_packed(owners: Owners) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def pack() -> Cargo:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)  # a process of its own takes a moment to end
            ended.set()
        raise AssertionError

    executor = owners.make(NO_WATCH)
    executor.take_code(OwnCode(pack=pack, make_here=lambda: executor))
    opening = asyncio.ensure_future(executor.open(lambda: None))
    await begun.wait()
    await executor.close()
    assert ended.is_set()
    await asyncio.wait([opening])
