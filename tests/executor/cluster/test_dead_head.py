"""A cluster whose head answers no more, made up: the run ends, and what lives is left to its next owner."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.errors import ExitCode, SandboxFailed
from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.experiment.options.overrides import Overrides
from labrunner.records.completion import Graded
from labrunner.runner.resume.continuing import continue_run
from labrunner.runner.sitting.sitting import Live, RunEnd
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
