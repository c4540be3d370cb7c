"""What is heard of one attempt: who is cancelled has nothing left that writes into its folder."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from labrunner.executor.cluster.hearing.ear import Ear
from labrunner.executor.cluster.hearing.lending import Desk, Lender
from labrunner.executor.cluster.hearing.unheard import complete_unheard
from labrunner.executor.cluster.homecoming import Homecoming
from labrunner.executor.cluster.members.node import Node
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.rayport import RayWorker
from labrunner.executor.cluster.tidings import AttemptOrder, Begun, Ended, PieceTold, encode
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.files.strangers.masking import make_masker
from labrunner.records.completion import Cancelled, Completion
from labrunner.trial.assignment import Assignment
from tests.kit.executor.crews import Crew
from tests.kit.trial.attempting import HeardNotes


class Telling(RayWorker):
    """A worker that tells one thing of an attempt."""

    def __init__(self, told: bytes) -> None:
        self._told = told

    async def stream(self, name: str, *words: object) -> AsyncIterator[bytes]:
        yield self._told


class SlowHome(Homecoming):
    """A disk that takes its time."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "aside", make_masker({}))
        self.is_at_work, self.go, self.has_ended = threading.Event(), threading.Event(), False

    def take(self, piece: bytes, told: bytes) -> None:
        self._work()

    def finish(self, completion: Completion) -> None:
        self._work()

    def _work(self) -> None:
        self.is_at_work.set()
        self.go.wait()
        self.has_ended = True


def make_ear(assignment: Assignment, told: bytes, home: Homecoming) -> Ear:
    async def prepare() -> None:
        return

    async def begin(worker: object, node: object, hello: object) -> Begun:
        raise NotImplementedError

    async def grant(seq: int) -> None:
        return

    begun = Begun(places=1, trials_dir="/")
    return Ear(
        node=Node(id="1", name="n", worker=Telling(told), begun=begun),
        order=AttemptOrder(assignment=assignment),
        work=None,
        notes=HeardNotes(),
        home=home,
        desk=Desk(Lender(), grant),
        nodes=Nodes(ExecutorPlan(), prepare, begin),
    )


@pytest.mark.parametrize("at", ["take", "finish"])
async def test_who_is_cancelled_while_files_come_home_has_seen_the_disk_come_to_rest(
    tmp_path: Path, at: Literal["take", "finish"]
) -> None:
    assignment, home = Crew(run_dir=tmp_path).assignment, SlowHome(tmp_path / "1")
    ended = Ended(completion=complete_unheard(assignment, Cancelled(reason="made"), None))
    told = encode(PieceTold(piece=b"", digest=b"") if at == "take" else ended)
    hearing = asyncio.ensure_future(make_ear(assignment, told, home).hear())
    await asyncio.to_thread(home.is_at_work.wait)
    hearing.cancel()
    done, _ = await asyncio.wait([hearing], timeout=0.1)
    home.go.set()
    await asyncio.wait([hearing])
    assert done == set()
    assert home.has_ended
    assert hearing.cancelled()
