"""Nodes of one name, made up: one of them is used at a time, and a dead one keeps no other waiting."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from labrunner.errors import SandboxFailed
from labrunner.executor.cluster.rayport import RayNode
from labrunner.records.completion import Graded
from tests.kit.executor.madenodes import MadeCluster
from tests.kit.executor.madeowners import NO_WATCH, QUICK, Owners, Quiet, until

ONCE = replace(QUICK, again_s=3600.0, latest_s=3600.0)
"""Who fails is not tried again."""


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[MadeCluster]:
    made = MadeCluster(names=("n1", "n2"), per_node=4, takes_s=0.2)
    yield made
    made.close()


@pytest.fixture
def begun(cluster: MadeCluster) -> Counter[str]:
    """How many workers have begun on each machine."""
    found: Counter[str] = Counter()

    async def hear(node: str, name: str) -> None:
        if name == "begin":
            found[node] += 1

    cluster.on_call = hear
    return found


async def test_one_of_two_nodes_of_one_name_is_used_and_the_other_once_that_is_gone(
    owners: Owners, cluster: MadeCluster, begun: Counter[str]
) -> None:
    cluster.names_told["n2"] = "n1"
    executor = owners.make()
    await executor.open(lambda: None)
    looks = cluster.looks
    await until(lambda: cluster.looks > looks + 20)
    assert (executor.places, begun.total()) == (4, 1)
    assert isinstance((await executor.carry_out(owners.assign(0), Quiet())).end, Graded)
    (first,) = begun
    (second,) = set(cluster.nodes) - {first}
    cluster.nodes[first].leave()
    await until(lambda: begun[second] == 1)
    assert isinstance((await executor.carry_out(owners.assign(1), Quiet())).end, Graded)
    assert (executor.places, executor.trouble) == (4, "")


async def test_two_nodes_of_one_name_are_warned_of(owners: Owners, cluster: MadeCluster) -> None:
    assert all(check.passed for check in await owners.make(NO_WATCH).preflight())
    cluster.names_told["n2"] = "n1"
    (told,) = [check for check in await owners.make(NO_WATCH).preflight() if not check.passed]
    assert (told.node, told.severity, told.message.split()[0]) == ("n1", "warning", "2")
    assert "only one of them is used at a time" in told.message
    assert "ray start --node-name" in told.message


@pytest.mark.parametrize("dead", ["id", "ie"])  # is tried first, or might be never
async def test_a_dead_node_that_is_still_listed_keeps_the_one_started_again_from_nothing(
    dead: str, owners: Owners, cluster: MadeCluster
) -> None:
    cluster.unnoticed.append(RayNode(id=dead, name="n1"))
    checks = await owners.make(NO_WATCH).preflight()
    assert [(check.name, check.severity) for check in checks if not check.passed] == [
        ("node name", "warning")
    ]
    executor = owners.make(ONCE)
    assert await executor.survivors() == ()
    await executor.open(lambda: None)
    assert executor.places == 8


async def test_an_attempt_goes_on_where_its_node_was_started_again_and_is_listed_twice(
    owners: Owners, cluster: MadeCluster
) -> None:
    executor, mine = owners.make(ONCE), owners.assign(0)
    await executor.open(lambda: None)
    work = owners.begin(executor, mine)
    await until(lambda: bool(cluster.begun[mine.trial_id]))
    (home,) = [node for node in cluster.nodes.values() if node.containers]
    home.leave(unnoticed=True)
    home.come_back()
    async with asyncio.timeout(10):
        completion = await work
    assert isinstance(completion.end, Graded), completion.end
    assert cluster.begun[mine.trial_id] == [mine.token]
    await until(lambda: executor.places == 8)
    assert executor.trouble == ""


async def test_a_worker_that_dies_is_followed_on_its_own_node_and_not_on_a_namesake(
    owners: Owners, cluster: MadeCluster, begun: Counter[str]
) -> None:
    cluster.names_told["n2"] = "n1"
    cluster.nodes["n2"].id = "z"  # of nodes that are alike, it would be tried last
    cluster.nodes["n1"].leave()
    executor, mine = owners.make(), owners.assign(0)
    await executor.open(lambda: None)
    cluster.nodes["n1"].come_back()
    work = owners.begin(executor, mine)
    await until(lambda: bool(cluster.begun[mine.trial_id]))
    cluster.nodes["n2"].kill_worker()
    completion = await work
    assert isinstance(completion.end, Graded), completion.end
    assert cluster.begun[mine.trial_id] == [mine.token]
    assert begun == {"n2": 2}


async def test_a_node_that_fails_gives_its_turn_to_its_namesake(owners: Owners, cluster: MadeCluster) -> None:
    cluster.names_told["n2"] = "n1"

    async def refuse(node: str, name: str) -> None:
        if node == "n1" and name == "preflight":
            raise SandboxFailed("engine", "no engine")

    cluster.on_call = refuse
    executor = owners.make(ONCE)
    await executor.open(lambda: None)
    await until(lambda: executor.places == 4)
    assert cluster.nodes["n1"].worker is not None
    assert cluster.nodes["n1"].worker.is_dead
