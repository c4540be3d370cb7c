"""What a node does for a run, and what it remembers for its next worker."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.cluster.onnode.nodeplace import UNUSED_S, VARIABLE, NodePlace, RunPlace
from labrunner.executor.door import Discard
from labrunner.files.strangers.removal import remove_tree
from labrunner.records.completion import Graded
from tests.kit.executor.crews import Work
from tests.kit.executor.nearnodes import NAME, NearCrew
from tests.kit.trial.attempting import HeardNotes

BIG = "head -c 20000000 /dev/urandom > big"
"""More than may be on its way at once."""
ALL_OF_IT = Discard(workspace=True, logs=True)


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NearCrew:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nodes"))
    return NearCrew(run_dir=tmp_path / "run")


@pytest.fixture
def place(crew: NearCrew) -> NodePlace:
    """Where the node works."""
    del crew
    return NodePlace.make(NAME)


def leave_unused(folder: Path) -> None:
    """As if it had been used last a day too long ago."""
    then = time.time() - UNUSED_S - 24 * 3600
    os.utime(folder, (then, then))


@asynccontextmanager
async def opened(crew: NearCrew) -> AsyncIterator[RayExecutor]:
    made = crew.executor()
    try:
        yield made
    finally:
        await made.close()


async def test_how_an_agent_ended_is_known_on_its_node_until_its_work_is_safe_at_home(
    crew: NearCrew,
) -> None:
    async with opened(crew) as executor:
        completion = await executor.carry_out(crew.assignment, HeardNotes())
        assert isinstance(completion.end, Graded)
        (worker,) = crew.cluster.workers
        assert [(each.token, each.phase) for each in await worker.standing()] == [(crew.token, "grader")]
        await executor.release(crew.assignment, ALL_OF_IT)
        assert await worker.standing() == ()


async def test_nothing_is_remembered_of_what_was_heard_of_when_a_worker_is_told_to_let_go(
    crew: NearCrew,
) -> None:
    async with opened(crew) as executor:
        await executor.carry_out(crew.assignment, HeardNotes())
    async with opened(crew) as heir:
        assert await heir.survivors() == ()


async def test_work_that_did_not_come_home_is_judged_again_and_no_agent_runs_twice(
    crew: NearCrew, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    crew = replace(crew, is_repeatable=True, work=Work(agent=f"echo x >> {starts}; echo an answer > answer"))
    async with opened(crew) as executor:
        await executor.carry_out(crew.assignment, HeardNotes())
        remove_tree(crew.folders.root)
        (survivor,) = await executor.survivors()
        completion = await executor.carry_out(crew.assignment, HeardNotes(), survivor)
    assert isinstance(completion.end, Graded)
    assert starts.read_text() == "x\n"
    assert (crew.folders.workspace / "answer").read_text() == "an answer\n"


@pytest.mark.parametrize("held", [1, 2], ids=["before its grader starts", "while its files come home"])
async def test_nothing_is_remembered_of_an_attempt_that_was_cancelled(crew: NearCrew, held: int) -> None:
    crew = replace(crew, work=Work(agent=f"{BIG}; echo an answer > answer"))
    crew.cluster.holds = held
    async with opened(crew) as executor:
        work = asyncio.ensure_future(executor.carry_out(crew.assignment, HeardNotes()))
        await crew.cluster.has_held.wait()
        (worker,) = crew.cluster.workers
        assert len(await worker.standing()) == 1
        work.cancel()
        await asyncio.wait([work])
        assert await worker.standing() == ()


async def test_what_nobody_has_used_for_long_goes_when_a_worker_begins(
    crew: NearCrew, place: NodePlace
) -> None:
    for name in ("old", "recent"):
        (place.parcels / name).mkdir()
        (place.runs / name / "trials").mkdir(parents=True)
    for folder in (place.parcels, place.runs):
        leave_unused(folder / "old")
    (place.runs / "old/lock").touch()
    leave_unused(place.runs / "old")
    async with opened(crew) as executor:
        await executor.open(lambda: None)
        for folder in (place.parcels, place.runs):
            assert (folder / "recent").is_dir()
            assert not (folder / "old").exists()


async def test_a_run_whose_lock_can_not_be_looked_at_stays(crew: NearCrew, place: NodePlace) -> None:
    run = RunPlace.make(place, "odd")
    (run.folder / "lock").symlink_to("lock")
    leave_unused(run.folder)
    async with opened(crew) as executor:
        await executor.open(lambda: None)
        assert run.trials.is_dir()


async def test_a_run_that_a_worker_has_been_at_for_long_keeps_its_folder_and_all_parcels(
    crew: NearCrew, place: NodePlace
) -> None:
    run = RunPlace.make(place, "long")
    (place.parcels / "its own").mkdir()
    lock = await run.lock()
    leave_unused(run.folder)
    leave_unused(place.parcels / "its own")
    try:
        async with opened(crew) as executor:
            await executor.open(lambda: None)
            assert run.trials.is_dir()
            assert (place.parcels / "its own").is_dir()
    finally:
        os.close(lock)
