"""Work that lies here whole and is sent to nodes for its grader, on a made-up cluster."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from labrunner.executor.door import Discard
from labrunner.records.completion import Cancelled, Completion, Failed, Graded
from tests.kit.executor.madenodes import MadeCluster
from tests.kit.executor.madeowners import QUICK, Owners, Quiet


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[MadeCluster]:
    made = MadeCluster(names=("n1", "n2"), per_node=4)
    yield made
    made.close()


def repeat_graders(owners: Owners) -> None:
    tasks = tuple(
        replace(each, grader=replace(each.grader, repeatable=True)) for each in owners.experiment.tasks
    )
    owners.experiment = replace(owners.experiment, tasks=tasks)


async def judge(owners: Owners) -> Completion:
    executor, mine = owners.make(QUICK), owners.assign(0)
    return await executor.carry_out(mine, Quiet(), owners.keep(mine))


class Deaths:
    """Has nodes die at a moment, so many times."""

    def __init__(self, cluster: MadeCluster, count: int, *, nodes_too: bool = False) -> None:
        self._cluster, self.left, self._nodes_too = cluster, count, nodes_too

    async def at(self, node: str, name: str = "receive_folder") -> None:
        if not self.left or name != "receive_folder":
            return
        self.left -= 1
        made = self._cluster.nodes[node]
        made.leave() if self._nodes_too else made.kill_worker()


@pytest.mark.parametrize("nodes_too", [False, True])
async def test_work_whose_node_dies_while_a_repeatable_grader_runs_is_graded_by_another(
    owners: Owners, cluster: MadeCluster, nodes_too: bool
) -> None:
    repeat_graders(owners)
    deaths = Deaths(cluster, 1, nodes_too=nodes_too)
    cluster.on_grading = deaths.at
    completion = await judge(owners)
    assert deaths.left == 0
    assert isinstance(completion.end, Graded), completion.end


async def test_work_whose_grader_may_not_be_repeated_is_cut_off_once_that_had_begun(
    owners: Owners, cluster: MadeCluster
) -> None:
    deaths = Deaths(cluster, 1)
    cluster.on_grading = deaths.at
    completion = await judge(owners)
    assert deaths.left == 0
    assert completion.end == Cancelled(reason="node_lost")


async def test_work_whose_node_dies_before_its_grader_has_begun_is_sent_again(
    owners: Owners, cluster: MadeCluster
) -> None:
    died: list[str] = []

    async def die(node: str, name: str) -> None:
        if name == "acknowledge" and not died:
            died.append(node)
            cluster.nodes[node].kill_worker()

    cluster.on_call = die
    completion = await judge(owners)
    assert died
    assert isinstance(completion.end, Graded), completion.end


async def test_work_whose_node_dies_while_it_is_sent_is_sent_again(
    owners: Owners, cluster: MadeCluster
) -> None:
    deaths = Deaths(cluster, 3)
    cluster.on_call = deaths.at
    completion = await judge(owners)
    assert deaths.left == 0
    assert isinstance(completion.end, Graded), completion.end


async def test_a_grader_that_ends_its_node_each_time_is_its_trials_fault(
    owners: Owners, cluster: MadeCluster
) -> None:
    repeat_graders(owners)
    deaths = Deaths(cluster, 1000)
    cluster.on_grading = deaths.at
    completion = await judge(owners)
    assert isinstance(completion.end, Failed)
    assert completion.end.cause == "sandbox", completion.end
    assert 1000 - deaths.left == 10


async def test_work_whose_node_has_a_full_disk_is_graded_by_another(
    owners: Owners, cluster: MadeCluster
) -> None:
    cluster.full.update(n1=1, n2=1)
    completion = await judge(owners)
    assert not cluster.full.total()
    assert isinstance(completion.end, Graded), completion.end


async def test_what_a_killed_owner_left_on_its_way_home_goes_with_the_attempt(owners: Owners) -> None:
    mine = owners.assign(0)
    owners.keep(mine)
    trial = owners.folder / "trials" / mine.trial_id
    (trial / ".1.home" / "workspace").mkdir(parents=True)
    await owners.make(QUICK).release(mine, Discard(workspace=False, logs=False))
    assert [path.name for path in trial.iterdir()] == ["1"]
