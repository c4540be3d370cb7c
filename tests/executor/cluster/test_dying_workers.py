"""Workers and nodes that die at every moment, on a made-up cluster: what lives is gone on with, and once."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.errors import SandboxFailed
from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.cluster.members.node import NODE_PACE
from labrunner.executor.cluster.onnode.nodeplace import PATIENCE_S
from labrunner.records.completion import Graded
from labrunner.runner.sitting.sitting import Live, RunEnd
from labrunner.runner.start import RunOptions, run_experiment
from tests.kit.executor.madenodes import MadeCluster
from tests.kit.executor.madeowners import IMPATIENT, NO_WATCH, TASKS, Owners, Quiet, make_clustered, until


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[MadeCluster]:
    made = MadeCluster(names=("n1",), per_node=4, takes_s=0.2)
    yield made
    made.close()


async def test_a_worker_that_dies_twice_in_a_row_leaves_what_lives_to_the_third(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor, mine = owners.make(), owners.assign(0)
    await executor.open(lambda: None)
    work = owners.begin(executor, mine)
    await until(lambda: bool(cluster.begun[mine.trial_id]))
    deaths = 2

    async def die_when_asked_what_lives(node: str, name: str) -> None:
        nonlocal deaths
        if name == "survivors" and deaths > 1:
            deaths -= 1
            cluster.nodes[node].kill_worker()

    cluster.on_call = die_when_asked_what_lives
    cluster.nodes["n1"].kill_worker()
    completion = await work
    assert deaths == 1
    assert isinstance(completion.end, Graded)
    assert cluster.begun[mine.trial_id] == [mine.token]


async def test_the_next_worker_is_asked_once_what_lives_there_for_all_that_wait_for_it(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor, all_of_it = owners.make(), [owners.assign(number) for number in range(4)]
    asked: Counter[str] = Counter()

    async def hear(node: str, name: str) -> None:
        asked[name] += 1
        if name == "survivors":
            await asyncio.sleep(0.05)  # its engine takes a while

    await executor.open(lambda: None)
    work = [owners.begin(executor, mine) for mine in all_of_it]
    await until(lambda: all(cluster.begun[mine.trial_id] for mine in all_of_it))
    cluster.on_call = hear
    cluster.nodes["n1"].kill_worker()
    ends = [(await each).end for each in work]
    assert [type(end) for end in ends] == [Graded] * 4
    assert [cluster.begun[mine.trial_id] for mine in all_of_it] == [[mine.token] for mine in all_of_it]
    assert asked["survivors"] == 1


async def test_an_engine_that_does_not_answer_at_once_is_asked_again_what_lives_there(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor, mine, refusals = owners.make(), owners.assign(0), 3
    await executor.open(lambda: None)
    work = owners.begin(executor, mine)
    await until(lambda: bool(cluster.begun[mine.trial_id]))

    async def refuse(node: str, name: str) -> None:
        nonlocal refusals
        if name == "survivors" and refusals:
            refusals -= 1
            raise SandboxFailed("engine", "does not answer")

    cluster.on_call = refuse
    cluster.nodes["n1"].kill_worker()
    completion = await work
    assert refusals == 0
    assert isinstance(completion.end, Graded)
    assert cluster.begun[mine.trial_id] == [mine.token]


async def test_who_waits_for_what_lives_on_a_node_is_cancelled_alone(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor, one, other = owners.make(), owners.assign(0), owners.assign(1)
    await executor.open(lambda: None)
    first, second = owners.begin(executor, one), owners.begin(executor, other)
    await until(lambda: bool(cluster.begun[one.trial_id] and cluster.begun[other.trial_id]))
    asked, go = asyncio.Event(), asyncio.Event()

    async def wait(node: str, name: str) -> None:
        if name == "survivors":
            asked.set()
            await go.wait()

    cluster.on_call = wait
    cluster.nodes["n1"].kill_worker()
    await asked.wait()
    first.cancel()
    await asyncio.wait([first])
    go.set()
    assert isinstance((await second).end, Graded)
    assert cluster.begun[other.trial_id] == [other.token]


def test_what_lives_on_a_node_is_waited_for_while_its_next_worker_may_take_two_tries_to_start() -> None:
    one_try = NODE_PACE.start_s + PATIENCE_S
    assert NODE_PACE.rejoin_s > 2 * one_try + NODE_PACE.again_s


async def test_what_is_to_be_gone_on_with_is_not_swept_when_its_worker_dies_first(
    owners: Owners, cluster: MadeCluster
) -> None:
    mine = owners.assign(0)
    await owners.leave(mine)
    executor = owners.make()
    (survivor,) = await executor.survivors()
    await executor.reap(frozenset({mine.token}))
    await executor.open(lambda: None)
    cluster.nodes["n1"].kill_worker()
    await until(lambda: executor.places > 0 and cluster.nodes["n1"].worker is not None)
    await asyncio.sleep(0.2)  # the next worker has been there for long: nobody has come for it yet
    completion = await executor.carry_out(mine, Quiet(), survivor)
    assert isinstance(completion.end, Graded), completion.end
    assert cluster.begun[mine.trial_id] == [mine.token]


async def test_who_owns_the_run_next_asks_again_when_a_worker_dies_over_it(
    owners: Owners, cluster: MadeCluster
) -> None:
    mine, deaths = owners.assign(0), ["introduce", "survivors"]
    await owners.leave(mine)

    async def die(node: str, name: str) -> None:
        if deaths and name == deaths[0]:
            deaths.pop(0)
            cluster.nodes[node].kill_worker()

    cluster.on_call = die
    executor = owners.make(NO_WATCH)
    found = await executor.survivors()
    assert deaths == []
    assert [each.token for each in found] == [mine.token]


async def test_nothing_is_left_when_a_worker_dies_while_it_sweeps(
    owners: Owners, cluster: MadeCluster
) -> None:
    mine, deaths = owners.assign(0), ["reap"]
    await owners.leave(mine)

    async def die(node: str, name: str) -> None:
        if deaths and name == deaths[0]:
            deaths.pop(0)
            cluster.nodes[node].kill_worker()

    cluster.on_call = die
    await owners.make(NO_WATCH).reap(frozenset())
    assert deaths == []
    assert cluster.nodes["n1"].containers == {}


async def torment(cluster: MadeCluster, *, nodes_too: bool, hanging_too: bool) -> None:
    """Kill at random, for ever: who dies while everything is still being tried out has the run refused.

    Between two nodes that leave an attempt ends, however busy this machine is.
    """
    names, ended = list(cluster.nodes), 0
    await until(lambda: bool(cluster.begun))
    while True:
        await asyncio.sleep(cluster.dice.uniform(0, 0.02))
        node = cluster.nodes[cluster.dice.choice(names)]
        if nodes_too and cluster.dice.random() < 0.5:
            while cluster.ended == ended:
                await asyncio.sleep(0.001)
            ended = cluster.ended
            node.leave()
            await asyncio.sleep(cluster.dice.uniform(0, 0.02))
            node.come_back()
        elif hanging_too and cluster.dice.random() < 0.3:
            node.hang_worker()
        else:
            node.kill_worker()


async def carry_out(folder: Path, cluster: MadeCluster) -> RunEnd:
    async def watch(live: Live) -> None:
        return

    options = RunOptions(
        runs_dir=folder,
        secrets={},
        run_id="r",
        executors=lambda kind, context, make: RayExecutor(context, make, port=cluster, pace=IMPATIENT),
    )
    return await run_experiment(make_clustered(), options, watch)


async def carry_out_among_deaths(
    folder: Path, cluster: MadeCluster, *, nodes_too: bool = False, hanging_too: bool = False
) -> RunEnd:
    killing = asyncio.ensure_future(torment(cluster, nodes_too=nodes_too, hanging_too=hanging_too))
    try:
        return await carry_out(folder, cluster)
    finally:
        killing.cancel()
        cluster.close()


def find_failures(end: RunEnd) -> list[str]:
    """What is said of each trial that came to no verdict."""
    rows = (end.paths.root / "facts/timings.jsonl").read_text().splitlines()
    told = [json.loads(row)["attempts"][-1].get("message") for row in rows]
    assert len(told) == TASKS
    return [each for each in told if each is not None]


@pytest.mark.parametrize("seed", range(3))
async def test_workers_that_die_all_the_time_cost_no_result_and_no_agent(seed: int, tmp_path: Path) -> None:
    cluster = MadeCluster(seed=seed)
    end = await carry_out_among_deaths(tmp_path, cluster)
    assert find_failures(end) == []
    assert [tokens for tokens in cluster.begun.values() if len(tokens) > 1] == []


@pytest.mark.parametrize("seed", range(3))
async def test_workers_that_hang_or_die_all_the_time_cost_no_result_and_no_agent(
    seed: int, tmp_path: Path
) -> None:
    cluster = MadeCluster(seed=seed, connections=TASKS)
    end = await carry_out_among_deaths(tmp_path, cluster, hanging_too=True)
    assert find_failures(end) == []
    assert [tokens for tokens in cluster.begun.values() if len(tokens) > 1] == []


@pytest.mark.parametrize("seed", range(3))
async def test_nodes_that_are_lost_all_the_time_are_no_trials_fault(seed: int, tmp_path: Path) -> None:
    end = await carry_out_among_deaths(tmp_path, MadeCluster(seed=seed), nodes_too=True)
    assert find_failures(end) == []
