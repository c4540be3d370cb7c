"""What a node does for a run, and what it remembers for its next worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.cluster.onnode.nodeplace import VARIABLE
from labrunner.executor.door import Discard
from labrunner.files.strangers.removal import remove_tree
from labrunner.records.completion import Graded
from tests.kit.executor.crews import Work
from tests.kit.executor.nearnodes import NearCrew
from tests.kit.trial.attempting import HeardNotes

BIG = "head -c 20000000 /dev/urandom > big"
"""More than may be on its way at once."""
ALL_OF_IT = Discard(workspace=True, logs=True)


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NearCrew:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nodes"))
    return NearCrew(run_dir=tmp_path / "run")


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
