"""What `executor/door.py` promises, whoever carries attempts out; an executor joins in `crews.py`."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from labrunner.executor.door import Discard, Executor
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion, Failed, FileRef, Graded
from tests.kit.executor.crews import Crew, PhaseName, Sent
from tests.kit.executor.driver import start_runner
from tests.kit.sandbox.place import TREE, is_locked
from tests.kit.syncing import listen
from tests.kit.trial.attempting import HeardNotes

STAYS = f"cat > tree.py <<'END'\n{TREE.read_text()}\nEND\npython3 tree.py stay"
"""Starts processes that are hard to end, each of which holds `lock`; and does not end."""


@asynccontextmanager
async def opened(crew: Crew) -> AsyncIterator[Executor]:
    executor = crew.executor()
    try:
        yield executor
    finally:
        await executor.reap(frozenset())
        await executor.close()


async def carry_out(crew: Crew, executor: Executor) -> Completion:
    return await executor.carry_out(crew.assignment, HeardNotes())


def working(crew: Crew, phase: PhaseName, text: str) -> Crew:
    return replace(crew, work=crew.work.with_phase(phase, text))


def files_below(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


def named(completion: Completion) -> tuple[FileRef, ...]:
    return (*completion.files, *completion.timing.logs)


async def until_started(crew: Crew) -> None:
    async with asyncio.timeout(60):
        while not (crew.at_work.workspace / "started").exists():
            await asyncio.sleep(0.02)


@contextmanager
def watched_lock(crew: Crew) -> Iterator[Path]:
    """The lock of an attempt under way, to be looked at also when its folder is gone."""
    fd = os.open(crew.at_work.workspace / "lock", os.O_RDWR)
    try:
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


async def until_gone(lock: Path) -> None:
    async with asyncio.timeout(30):
        while is_locked(lock):
            await asyncio.sleep(0.02)


async def test_preflight_proves_that_attempts_can_be_carried_out(crew: Crew) -> None:
    async with opened(crew) as executor:
        checks = await executor.preflight()
    assert checks
    assert [check for check in checks if not check.passed] == []
    assert files_below(crew.trials_dir) == set()


async def test_preflight_tells_what_can_not_be_carried_out(crew: Crew) -> None:
    crew = working(crew, "grader", f"{crew.work.grader} # {'long ' * 100_000}")
    async with opened(crew) as executor:
        checks = await executor.preflight()
    assert [check.name for check in checks if not check.passed] == ["commands"]
    assert files_below(crew.trials_dir) == set()


async def test_an_attempt_ends_as_one_completion_that_is_its_own(crew: Crew) -> None:
    async with opened(crew) as executor:
        done = await carry_out(crew, executor)
    asked = crew.assignment
    told = (done.token, done.schedule_idx, done.trial_id, done.attempt, done.timing.attempt)
    assert told == (asked.token, 0, asked.trial_id, 1, 1)
    assert isinstance(done.end, Graded), done.end
    assert done.end.verdict == "pass"


async def test_files_that_are_named_lie_in_the_attempts_folder_as_told_and_are_synced(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = listen(monkeypatch)
    async with opened(crew) as executor:
        done = await carry_out(crew, executor)
    root = crew.folders.root.resolve()
    refs = named(done)
    assert "out/benchmark_score.json" in {ref.path for ref in refs}
    for ref in refs:
        content = (root / ref.path).read_bytes()
        assert ref.size == len(content)
        assert ref.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert str(root / ref.path) in synced, f"{ref.path} was not synced"
        assert str((root / ref.path).parent) in synced, f"the folder of {ref.path} was not synced"
    assert str(root) in synced


async def test_a_failure_is_told_and_not_tried_again(crew: Crew) -> None:
    crew = working(crew, crew.phases[0], "echo again >> ../state/tries; exit 75")
    async with opened(crew) as executor:
        done = await carry_out(crew, executor)
    assert isinstance(done.end, Failed), done.end
    assert done.end.message
    assert (crew.folders.state / "tries").read_text() == "again\n"
    assert [path.name for path in crew.folders.root.parent.iterdir()] == ["1"]


async def test_cancelling_ends_everything_of_the_attempt_before_the_call_returns(crew: Crew) -> None:
    for phase in crew.phases:
        each = replace(working(crew, phase, STAYS), run_dir=crew.run_dir / phase)
        async with opened(each) as executor:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(carry_out(each, executor))
                await until_started(each)
                assert is_locked(each.at_work.workspace / "lock")
                task.cancel()
            assert task.cancelled()
            assert not is_locked(each.at_work.workspace / "lock"), f"the {phase} goes on"


@dataclass
class LookingNotes(HeardNotes):
    """Notes that take their time, and look whether what they announce has waited for them."""

    graded: Path = Path()
    too_early: list[str] = field(default_factory=list)

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        await self._look("barrier")
        await super().barrier_held(token, note)

    async def grader_starting(self, token: str) -> None:
        await self._look("grader")
        await super().grader_starting(token)

    async def _look(self, name: str) -> None:
        # No event tells that nothing happens: a grader that did not wait is there by then.
        await asyncio.sleep(0.5)
        if self.graded.exists():
            self.too_early.append(name)


async def test_notes_come_in_order_and_before_what_they_announce(crew: Crew) -> None:
    crew = working(crew, "grader", f"touch graded; {crew.work.grader}")
    notes = LookingNotes(graded=crew.at_work.workspace / "graded")
    async with opened(crew) as executor:
        done = await executor.carry_out(crew.assignment, notes)
        outlives = executor.outlives_runner(crew.assignment)
    assert isinstance(done.end, Graded), done.end
    heard = [word for word in notes.heard if word != "event"]
    if crew.node is not None:
        assert heard.pop(0) == f"placed {crew.node}"
    assert heard in (["barrier", "grader", "gone"], ["grader", "gone"])
    if outlives:
        assert "barrier" in heard, "an heir would not know that the agent has ended"
    assert notes.too_early == []
    assert (crew.folders.workspace / "graded").exists()


async def test_release_throws_away_what_is_asked_and_nothing_else(crew: Crew) -> None:
    async with opened(crew) as executor:
        done = await carry_out(crew, executor)
        root = crew.folders.root
        before = files_below(root)
        assert {"workspace", "logs", "out"} <= before
        left = before
        for _ in range(2):
            await executor.release(crew.assignment, Discard(workspace=True, logs=False))
            left = files_below(root)
            gone = {name.partition("/")[0] for name in before - left}
            assert "workspace" in gone
            assert gone <= {"workspace", *OF_THE_SANDBOX}
        for _ in range(2):
            await executor.release(crew.assignment, Discard(workspace=True, logs=True))
            assert {name for name in left - files_below(root) if not name.startswith("logs")} == set()
            assert not crew.folders.logs.exists()
    for ref in done.files:
        assert (root / ref.path).exists(), f"{ref.path} was thrown away"


OF_THE_SANDBOX = ("ctl", "agent")
"""What stands in an attempt's folder for its sandbox alone, and goes with it."""


async def test_what_is_not_asked_to_go_stays(crew: Crew) -> None:
    async with opened(crew) as executor:
        await carry_out(crew, executor)
        before = files_below(crew.folders.root)
        await executor.release(crew.assignment, Discard(workspace=False, logs=False, sandbox=False))
        assert files_below(crew.folders.root) == before


async def test_closing_leaves_what_was_not_released(crew: Crew) -> None:
    executor = crew.executor()
    await carry_out(crew, executor)
    before = files_below(crew.folders.root)
    await executor.close()
    assert files_below(crew.folders.root) == before
    async with opened(crew) as heir:
        assert len(await heir.survivors()) == (1 if crew.leaves_survivors else 0)


@pytest.mark.crash
async def test_what_a_killed_runner_left_is_found_kept_and_removed(crew: Crew, crew_name: str) -> None:
    work = crew.work.with_phase(crew.phases[0], STAYS)
    sent = Sent(
        name=crew_name,
        run_dir=str(crew.run_dir),
        agent=work.agent,
        grader=work.grader,
        token=crew.token,
        image=crew.image,
    )
    runner = await asyncio.to_thread(start_runner, sent)
    with ExitStack() as stack:
        try:
            await until_started(crew)
            lock = stack.enter_context(watched_lock(crew))
        finally:
            runner.kill()
            await asyncio.to_thread(runner.wait)
        async with opened(crew) as heir:
            found = await heir.survivors()
            assert [survivor.token for survivor in found] == [crew.token] * crew.leaves_survivors
            if not heir.outlives_runner(crew.assignment):
                assert found == ()
            await heir.reap(frozenset({crew.token}))
            assert await heir.survivors() == found
            assert is_locked(lock) or not found, "what was to be kept has ended"
            assert await heir.reap(frozenset()) >= len(found)
            await until_gone(lock)
            assert (await heir.survivors(), await heir.reap(frozenset())) == ((), 0)
            done = await carry_out(replace(crew, token="another"), heir)
    assert isinstance(done.end, Graded), done.end
