"""A run begins on the nodes that pass, says which it leaves out, and uses those once they pass, too."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.errors import ExitCode, InputErrors, SandboxFailed
from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.sandbox.door import Check
from tests.kit.executor.madenodes import MadeCluster
from tests.kit.executor.madeowners import QUICK, TASKS, Owners, make_clustered, until


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[MadeCluster]:
    made = MadeCluster(takes_s=0.1)
    yield made
    made.close()


def spoil(cluster: MadeCluster, *names: str) -> set[str]:
    """Have nodes fail at preflight as long as they stand in the set."""
    spoilt = set(names)

    async def refuse(node: str, name: str) -> None:
        if node in spoilt and name == "preflight":
            raise SandboxFailed("engine", "no engine answers")

    cluster.on_call = refuse
    return spoilt


def choose(folder: Path, cluster: MadeCluster, told: list[Check]) -> RunOptions:
    return RunOptions(
        runs_dir=folder,
        secrets={},
        run_id="r",
        on_checks=told.extend,
        executors=lambda kind, context, make: RayExecutor(context, make, port=cluster, pace=QUICK),
    )


async def look_away(live: Live) -> None:
    return


async def test_a_run_begins_on_the_nodes_that_pass_and_says_which_it_leaves_out(
    tmp_path: Path, cluster: MadeCluster
) -> None:
    spoil(cluster, "n2")
    told: list[Check] = []
    end = await run_experiment(make_clustered(), choose(tmp_path, cluster, told), look_away)
    assert end.exit_code == ExitCode.SUCCESS
    assert end.status.counts.committed == TASKS
    warned = [(check.name, check.node, check.message) for check in told if check.severity == "warning"]
    assert warned == [
        ("nodes", "", "1 of 3 not used, for what fails there: n2; each is tried again later"),
        ("node", "n2", "no engine answers"),
    ]


async def test_a_run_is_refused_where_no_node_passes(tmp_path: Path, cluster: MadeCluster) -> None:
    spoil(cluster, "n1", "n2", "n3")
    told: list[Check] = []
    with pytest.raises(InputErrors, match="no engine answers") as refused:
        await run_experiment(make_clustered(), choose(tmp_path / "runs", cluster, told), look_away)
    assert len(refused.value.problems) == 3
    assert not (tmp_path / "runs").exists()


async def test_a_node_that_is_left_out_is_named_and_used_once_it_passes(
    owners: Owners, cluster: MadeCluster
) -> None:
    spoilt = spoil(cluster, "n2")
    executor = owners.make()
    await executor.open(lambda: None)
    assert (executor.places, executor.trouble) == (6, "1 of 3 nodes not used: n2")
    spoilt.clear()
    async with asyncio.timeout(10):
        await until(lambda: executor.places == 9)
    assert executor.trouble == ""
