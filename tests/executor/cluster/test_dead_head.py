"""A cluster whose head answers no more, made up: the run ends, and what lives is left to its next owner."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.errors import ExitCode, InputError, SandboxFailed
from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.experiment.options.overrides import Overrides
from labrunner.records.completion import Graded
from labrunner.runner.resume.continuing import continue_run
from labrunner.runner.sitting.sitting import Live, RunEnd
from labrunner.runner.smoke import smoke
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.store.rows.journal import read_last_line
from tests.kit.executor.madenodes import MadeCluster
from tests.kit.executor.madeowners import QUICK, TASKS, Owners, Quiet, make_clustered, until

MORTAL = replace(QUICK, head_s=0.3)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[MadeCluster]:
    made = MadeCluster(names=("n1", "n2"), per_node=4, takes_s=0.5)
    yield made
    made.close()


@pytest.mark.parametrize("is_silent", [False, True])
async def test_what_lives_when_the_head_dies_is_gone_on_with_by_the_next_owner(
    owners: Owners, cluster: MadeCluster, is_silent: bool
) -> None:
    mine, first = owners.assign(0), owners.make(MORTAL)
    told: list[str] = []
    await first.open(lambda: told.append(first.end))
    work = owners.begin(first, mine)
    await until(lambda: bool(cluster.begun[mine.trial_id]))
    cluster.head_is_silent, cluster.head_is_away = is_silent, not is_silent
    await until(lambda: bool(first.end))
    assert "lab continue" in told[-1]
    assert first.places == 0
    await asyncio.sleep(0.05)
    assert not work.done(), "nothing is said of an attempt that may live"
    with pytest.raises(SandboxFailed, match="head has not answered"):
        await first.reap(frozenset())
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await first.close()
    owners.made.remove(first)
    cluster.head_is_silent = cluster.head_is_away = False
    second = owners.make()
    (left,) = await second.survivors()
    assert left.token == mine.token
    await second.open(lambda: None)
    completion = await second.carry_out(mine, Quiet(), left)
    assert isinstance(completion.end, Graded)
    assert cluster.begun[mine.trial_id] == [mine.token], "its agent is not run again"


async def test_a_head_that_is_back_in_time_costs_nothing(owners: Owners, cluster: MadeCluster) -> None:
    mine, executor = owners.assign(0), owners.make(replace(MORTAL, head_s=5.0))
    await executor.open(lambda: None)
    work = owners.begin(executor, mine)
    await until(lambda: bool(cluster.begun[mine.trial_id]))
    cluster.head_is_away = True
    before = cluster.looks
    await until(lambda: cluster.looks > before + 3)
    cluster.head_is_away = False
    assert isinstance((await work).end, Graded)
    assert executor.end == ""


def stop_at(cluster: MadeCluster, call: str, calls: int = 1) -> asyncio.Event:
    """Have nodes answer nothing from a call on; set once that has been made so often."""
    seen, left = asyncio.Event(), calls

    async def stop(node: str, name: str) -> None:
        nonlocal left
        if name == call:
            left -= 1
        if left <= 0 and name == call:
            seen.set()
            await asyncio.Event().wait()

    cluster.on_call = stop
    return seen


@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("at", ["introduce", "begin", "preflight"])
async def test_a_head_that_dies_while_nodes_are_tried_out_is_a_check_that_fails(
    at: str, is_silent: bool, owners: Owners, cluster: MadeCluster
) -> None:
    executor, seen = owners.make(MORTAL), stop_at(cluster, at)
    asking = asyncio.ensure_future(executor.preflight())
    await seen.wait()
    cluster.head_is_silent, cluster.head_is_away = is_silent, not is_silent
    async with asyncio.timeout(10):
        (check,) = await asking
    assert (check.name, check.passed) == ("cluster", False)
    assert "head has not answered" in check.message
    assert "lab continue" not in check.message, "nothing has begun"
    assert all(node.worker is not None and node.worker.is_dead for node in cluster.nodes.values())


@pytest.mark.parametrize("at", ["introduce", "survivors", "reap"])
async def test_a_head_that_dies_while_nodes_are_asked_what_lives_there_ends_that(
    at: str, owners: Owners, cluster: MadeCluster
) -> None:
    executor, seen = owners.make(MORTAL), stop_at(cluster, at)
    asking = executor.reap(frozenset()) if at == "reap" else executor.survivors()
    work = asyncio.ensure_future(asking)
    await seen.wait()
    cluster.head_is_silent = True
    async with asyncio.timeout(10):
        with pytest.raises(SandboxFailed, match=r"head has not answered.*lab continue"):
            await work


async def test_a_head_that_dies_while_a_node_is_waited_for_ends_that(
    owners: Owners, cluster: MadeCluster
) -> None:
    asked = asyncio.Event()

    async def refuse(node: str, name: str) -> None:
        if node == "n2" and name == "begin":
            asked.set()
            raise SandboxFailed("node_taken", "not free yet")

    cluster.on_call = refuse
    executor = owners.make(replace(MORTAL, again_s=3600.0))
    work = asyncio.ensure_future(executor.survivors())
    await asked.wait()
    cluster.head_is_silent = True
    async with asyncio.timeout(10):
        with pytest.raises(SandboxFailed, match="head has not answered"):
            await work


async def test_nothing_is_said_of_what_lives_where_the_head_dies_while_nodes_are_opened(
    owners: Owners, cluster: MadeCluster
) -> None:
    mine, stands = owners.assign(0), owners.assign(1)
    await owners.leave(mine)
    executor = owners.make(MORTAL)
    (left,) = await executor.survivors()
    seen = stop_at(cluster, "preflight")
    opening = asyncio.ensure_future(executor.open(lambda: None))
    await seen.wait()
    cluster.head_is_silent = True
    async with asyncio.timeout(10):
        await opening
    assert "head has not answered" in executor.end
    work = [
        asyncio.ensure_future(executor.carry_out(mine, Quiet(), left)),
        asyncio.ensure_future(executor.carry_out(stands, Quiet(), owners.keep(stands))),
    ]
    await asyncio.wait(work, timeout=0.05)
    assert not any(each.done() for each in work)
    for each in work:
        each.cancel()
    await asyncio.wait(work)


async def look_away(live: Live) -> None:
    return


def choose(folder: Path, cluster: MadeCluster) -> RunOptions:
    return RunOptions(
        runs_dir=folder,
        secrets={},
        run_id="r",
        reread=lambda record, overrides: make_clustered(),
        executors=lambda kind, context, make: RayExecutor(context, make, port=cluster, pace=MORTAL),
    )


def chain_of(end: RunEnd) -> str:
    last = read_last_line(end.paths.commits, end.paths.root.name)
    assert last is not None
    return last.chain


async def test_a_run_whose_head_dies_ends_in_order_and_goes_on_with_the_same_digest(tmp_path: Path) -> None:
    whole = await run_experiment(make_clustered(), choose(tmp_path / "whole", MadeCluster()), look_away)
    cluster = MadeCluster(takes_s=0.3)
    options = choose(tmp_path / "cut", cluster)
    work = asyncio.ensure_future(run_experiment(make_clustered(), options, look_away))
    await until(lambda: len(cluster.begun) > TASKS // 2)
    cluster.head_is_silent = True
    end = await work
    assert (end.status.status, end.exit_code) == ("error", ExitCode.RUN_FAILED)
    assert end.status.error is not None
    assert "head has not answered" in end.status.error.message
    assert any(node.containers for node in cluster.nodes.values())
    cluster.head_is_silent = False
    gone_on = await continue_run(end.paths, options, Overrides(), look_away)
    assert gone_on is not None
    assert gone_on.exit_code == ExitCode.SUCCESS
    assert gone_on.adopted > 0
    assert chain_of(gone_on) == chain_of(whole)
    assert [tokens for tokens in cluster.begun.values() if len(tokens) > 1] == []
    cluster.close()


async def test_a_run_whose_head_dies_at_preflight_is_refused(tmp_path: Path, cluster: MadeCluster) -> None:
    seen = stop_at(cluster, "preflight")
    options = choose(tmp_path / "cut", cluster)
    work = asyncio.ensure_future(run_experiment(make_clustered(), options, look_away))
    await seen.wait()
    cluster.head_is_silent = True
    async with asyncio.timeout(10):
        with pytest.raises(InputError, match="cluster: the cluster's head has not answered") as refused:
            await work
    assert refused.value.exit_code == ExitCode.BAD_INPUT
    assert not list((tmp_path / "cut").glob("*"))


async def test_a_run_whose_head_dies_while_its_nodes_are_opened_ends_in_order(
    tmp_path: Path, cluster: MadeCluster
) -> None:
    seen = stop_at(cluster, "preflight", calls=3)  # two have been asked before anything was written
    options = choose(tmp_path / "cut", cluster)
    work = asyncio.ensure_future(run_experiment(make_clustered(), options, look_away))
    await seen.wait()
    cluster.head_is_silent = True
    async with asyncio.timeout(10):
        end = await work
    assert (end.status.status, end.exit_code) == ("error", ExitCode.RUN_FAILED)
    assert end.status.error is not None
    assert "head has not answered" in end.status.error.message
    cluster.head_is_silent, cluster.on_call = False, None
    gone_on = await continue_run(end.paths, options, Overrides(), look_away)
    assert gone_on is not None
    assert gone_on.exit_code == ExitCode.SUCCESS


async def test_a_doctor_whose_head_dies_while_a_grader_is_tried_says_so(
    tmp_path: Path, cluster: MadeCluster
) -> None:
    cluster.takes_s = 3600.0
    work = asyncio.ensure_future(smoke(make_clustered(), choose(tmp_path, cluster)))
    await until(lambda: bool(cluster.begun))
    cluster.head_is_silent = True
    async with asyncio.timeout(10):
        (check,) = await work
    assert not check.passed
    assert "was not tried: the cluster's head has not answered" in check.message


async def test_a_run_whose_nodes_are_looked_after_no_more_ends_and_says_why(tmp_path: Path) -> None:
    cluster = MadeCluster(takes_s=0.3)
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, told: seen.append(told.get("exception")))
    options = choose(tmp_path / "cut", cluster)
    work = asyncio.ensure_future(run_experiment(make_clustered(), options, look_away))
    await until(lambda: len(cluster.begun) > TASKS // 2)
    cluster.bug = KeyError("NodeName")
    async with asyncio.timeout(20):
        end = await work
    assert end.exit_code == ExitCode.RUN_FAILED
    assert end.status.error is not None
    assert "by a bug: KeyError: 'NodeName'" in end.status.error.message
    assert cluster.bug in seen
    cluster.close()
