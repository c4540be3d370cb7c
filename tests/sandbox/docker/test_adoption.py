"""The runner is killed at every moment of an attempt; whoever comes next goes on without running it twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from labrunner.executor.door import Discard
from labrunner.executor.local import LocalExecutor
from labrunner.records.completion import Completion, Failed, Graded
from labrunner.records.encoding.ids import make_token
from labrunner.sandbox.docker.attempt.survivors import find_left
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import PLACE
from labrunner.sandbox.docker.engine.replies import ContainerState
from labrunner.sandbox.door import Survivor
from labrunner.sandbox.marks import RunMark
from tests.kit.docker.lonely import Lonely, kill, wait_for_word
from tests.kit.trial.attempting import HeardNotes

pytestmark = pytest.mark.crash

ALL = ["setup", "agent", "grader"]
USERS = [None, "app"]


@pytest.fixture
def lonely(tmp_path: Path, ash: str) -> Lonely:
    return Lonely(run_dir=tmp_path / "run", image=ash)


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    yield engine
    await engine.close()


@pytest_asyncio.fixture
async def heir(lonely: Lonely) -> AsyncIterator[LocalExecutor]:
    """Whoever owns the run next; leaves no container behind."""
    lonely.run_dir.mkdir(parents=True)
    executor = lonely.executor()
    yield executor
    await executor.reap(frozenset())
    left = await executor.survivors()
    await executor.close()
    assert left == ()


async def containers(engine: Engine, lonely: Lonely) -> list[str]:
    place = RunMark.of(lonely.run_dir, "the-run").place
    return [each.id for each in await engine.list(f"{PLACE}={place}")]


async def only(heir: LocalExecutor) -> Survivor:
    (survivor,) = await heir.survivors()
    return survivor


async def kill_machine(engine: Engine, lonely: Lonely) -> None:
    """What a power cut does to containers: all processes are gone, layers and folders stay."""
    for container in await containers(engine, lonely):
        await engine.kill(container)
        async with asyncio.timeout(20):
            while (await engine.look(container)).is_alive:
                await asyncio.sleep(0.05)


def facts(completion: Completion) -> dict[str, Any]:
    """Everything of a completion that goes into committed rows."""
    return {
        "end": completion.end,
        "setup": completion.setup,
        "agent": completion.agent,
        "grader": completion.grader,
        "tries": completion.grader_tries,
        "barrier": completion.barrier,
        "files": completion.files,
    }


async def undisturbed(lonely: Lonely, beside: Path) -> dict[str, Any]:
    calm = Lonely(**{**lonely.__dict__, "run_dir": beside, "token": make_token()})
    (beside / "trials").mkdir(parents=True)
    executor = calm.executor()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(executor.carry_out(calm.assignment, HeardNotes()))
        await calm.until("setup")
        calm.go(*ALL)
    await executor.release(calm.assignment, Discard(workspace=False, logs=False))
    await executor.close()
    return facts(task.result())


async def test_a_runner_killed_before_the_plan_leaves_nothing_begun(
    lonely: Lonely, heir: LocalExecutor, engine: Engine
) -> None:
    runner = lonely.start_runner(stop="before_plan")
    wait_for_word(runner)
    kill(runner)

    survivor = await only(heir)
    assert (survivor.phase, survivor.is_alive) == ("not_begun", True)
    assert not survivor.is_adoptable(repeatable_grader=True)
    assert await heir.reap(frozenset()) == 1
    assert await containers(engine, lonely) == []


@pytest.mark.parametrize("moment", ["setup", "agent", "grader"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["waiting", "gone-on"])
@pytest.mark.parametrize("user", USERS, ids=["root", "app"])
async def test_a_runner_killed_while_a_phase_runs_is_replaced(
    lonely: Lonely, heir: LocalExecutor, tmp_path: Path, moment: str, goes_on: bool, user: str | None
) -> None:
    lonely.user = user
    if goes_on and moment == "setup":
        lonely.policy = "ignore"  # else an agent waits until somebody has looked at what setup changed
    runner = lonely.start_runner()
    before = ALL[: ALL.index(moment) + 1]
    for name in before:
        await lonely.until(*before[: before.index(name) + 1])
        if name != moment:
            lonely.go(name)
    kill(runner)
    if goes_on:
        lonely.go(moment)
        expected = {"setup": "agent", "agent": "barrier", "grader": "exited"}[moment]
        async with asyncio.timeout(20):
            while (await only(heir)).phase != expected:
                await asyncio.sleep(0.05)
    else:
        assert (await only(heir)).phase == moment
    survivor = await only(heir)
    assert survivor.is_adoptable(repeatable_grader=False)
    lonely.go(*ALL)
    completion = await lonely.adopt(survivor)

    assert isinstance(completion.end, Graded)
    assert completion.timing.adopted
    assert lonely.started() == ALL
    assert facts(completion) == await undisturbed(lonely, tmp_path / "calm")


@pytest.mark.parametrize("trust", ["standard", "strict"])
@pytest.mark.parametrize("machine", ["stays", "restarts"])
@pytest.mark.parametrize("user", USERS, ids=["root", "app"])
async def test_a_runner_killed_at_the_barrier_is_replaced(
    lonely: Lonely,
    heir: LocalExecutor,
    engine: Engine,
    tmp_path: Path,
    trust: str,
    machine: str,
    user: str | None,
) -> None:
    lonely.trust, lonely.user = trust, user
    runner = lonely.start_runner(stop="barrier")
    await lonely.until("setup")
    lonely.go(*ALL)
    wait_for_word(runner)
    kill(runner)
    if machine == "restarts":
        await kill_machine(engine, lonely)

    survivor = await only(heir)
    assert survivor.phase == "barrier"
    assert survivor.is_alive == (user == "app" and trust == "standard" and machine == "stays")
    completion = await lonely.adopt(survivor)

    assert lonely.started() == ALL
    assert facts(completion) == await undisturbed(lonely, tmp_path / "calm")


@pytest.mark.parametrize("user", USERS, ids=["root", "app"])
async def test_an_agent_that_ended_while_nobody_looked_is_graded_after_a_power_cut(
    lonely: Lonely, heir: LocalExecutor, engine: Engine, user: str | None
) -> None:
    lonely.user, lonely.policy = user, "ignore"  # else the agent waits for a look at what setup changed
    runner = lonely.start_runner()
    await lonely.until("setup")
    kill(runner)
    lonely.go(*ALL)
    async with asyncio.timeout(20):
        while (await only(heir)).phase != "barrier":
            await asyncio.sleep(0.05)
    await kill_machine(engine, lonely)

    survivor = await only(heir)
    assert (survivor.phase, survivor.is_alive) == ("barrier", False)
    completion = await lonely.adopt(survivor)
    assert isinstance(completion.end, Graded)
    assert lonely.started() == ALL


class Sweeping(Engine):
    """An engine on which somebody removes each container as soon as it has been looked at."""

    async def look(self, container: str) -> ContainerState:
        state = await super().look(container)
        await self.remove(container)
        return state


async def test_a_container_that_goes_while_it_is_looked_at_is_no_survivor(
    lonely: Lonely, heir: LocalExecutor
) -> None:
    runner = lonely.start_runner()
    await lonely.until("setup")
    kill(runner)
    await only(heir)
    engine = Sweeping()
    try:
        assert await find_left(engine, RunMark.of(lonely.run_dir, "the-run")) == []
    finally:
        await engine.close()


async def test_an_agent_that_a_power_cut_ended_is_not_adoptable(
    lonely: Lonely, heir: LocalExecutor, engine: Engine
) -> None:
    runner = lonely.start_runner()
    await lonely.until("setup")
    lonely.go("setup")
    await lonely.until("setup", "agent")
    kill(runner)
    await kill_machine(engine, lonely)

    survivor = await only(heir)
    assert survivor.phase == "died"
    assert not survivor.is_adoptable(repeatable_grader=True)


async def test_a_grader_that_a_power_cut_ended_runs_again_only_if_it_may(
    lonely: Lonely, heir: LocalExecutor, engine: Engine
) -> None:
    runner = lonely.start_runner()
    await lonely.until("setup")
    lonely.go("setup", "agent")
    await lonely.until(*ALL)
    kill(runner)
    await kill_machine(engine, lonely)

    survivor = await only(heir)
    assert (survivor.phase, survivor.is_alive) == ("grader", False)
    assert not survivor.is_adoptable(repeatable_grader=False)
    assert survivor.is_adoptable(repeatable_grader=True)
    lonely.go("grader")
    completion = await lonely.adopt(survivor)
    assert isinstance(completion.end, Graded)
    assert completion.grader_tries == 1
    assert lonely.started() == [*ALL, "grader"]


async def test_what_was_collected_and_not_reported_is_collected_again(
    lonely: Lonely, heir: LocalExecutor, tmp_path: Path
) -> None:
    runner = lonely.start_runner(stop="collected")
    await lonely.until("setup")
    lonely.go(*ALL)
    wait_for_word(runner)
    kill(runner)

    survivor = await only(heir)
    assert (survivor.phase, survivor.grader_tries) == ("exited", 1)
    completion = await lonely.adopt(survivor)
    assert lonely.started() == ALL
    assert facts(completion) == await undisturbed(lonely, tmp_path / "calm")


async def test_a_grader_in_a_fresh_container_is_adopted(
    lonely: Lonely, heir: LocalExecutor, tmp_path: Path
) -> None:
    lonely.where = "fresh"
    runner = lonely.start_runner()
    await lonely.until("setup")
    lonely.go("setup", "agent")
    await lonely.until(*ALL)
    kill(runner)

    survivor = await only(heir)
    assert (survivor.phase, len(survivor.ids)) == ("grader", 2)
    lonely.go("grader")
    completion = await lonely.adopt(survivor)
    assert lonely.started() == ALL
    assert facts(completion) == await undisturbed(lonely, tmp_path / "calm")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("moment", ["barrier", "made_afresh", "started_afresh", "grader", "collected"])
async def test_whoever_comes_next_judges_afresh_too(
    lonely: Lonely, heir: LocalExecutor, engine: Engine, tmp_path: Path, moment: str, user: str | None
) -> None:
    lonely.user, lonely.policy = user, "afresh"
    lonely.agent = "echo evil > /usr/share/evil; echo done > answer; exit 4"
    lonely.setup = "mkdir /usr/share; chmod 777 /usr/share"
    lonely.grade = f"[ ! -e /usr/share/evil ] && [ -e answer ] && {lonely.grade}"
    runner = lonely.start_runner(stop="" if moment == "grader" else moment)
    await lonely.until("setup")
    lonely.go("setup", "agent")
    if moment == "collected":
        lonely.go("grader")
    if moment == "grader":
        await lonely.until(*ALL)
    else:
        wait_for_word(runner)
    kill(runner)

    survivor = await only(heir)
    assert len(survivor.ids) == (1 if moment == "barrier" else 2)
    lonely.go("grader")
    completion = await lonely.adopt(survivor)
    assert lonely.started() == ALL
    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.end.flags) == ("pass", ("system_changed",))
    assert completion.barrier == "fresh_container"
    assert facts(completion) == await undisturbed(lonely, tmp_path / "calm")
    assert await containers(engine, lonely) == []


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("moment", ["half_taken", "barrier", "made_afresh", "half_put", "grader"])
async def test_work_in_the_image_is_neither_lost_nor_done_twice(
    lonely: Lonely, heir: LocalExecutor, engine: Engine, tmp_path: Path, moment: str, user: str | None
) -> None:
    lonely.user, lonely.where, lonely.workdir = user, "fresh", "/home/app"
    lonely.agent = "rm old; mv d e; echo done > answer; echo x >> count; exit 4"
    lonely.setup = "touch old; mkdir d; echo in > d/in; chmod 777 . d"
    lonely.grade = f"[ ! -e old ] && [ ! -e d ] && [ -e e/in ] && [ $$(wc -l < count) = 1 ] && {lonely.grade}"
    stops = {"half_taken": "", "grader": ""}
    dies = "layer.written:1" if moment == "half_taken" else ""
    runner = lonely.start_runner(stop=stops.get(moment, moment), die_at=dies)
    await lonely.until("setup")
    lonely.go("setup", "agent")
    if moment == "half_taken":
        await asyncio.to_thread(runner.wait, 60)
        assert [path.name for path in lonely.folders.root.glob("layer*")] == ["layer.tar.zst.part"]
    elif moment == "grader":
        await lonely.until(*ALL)
    else:
        wait_for_word(runner)
    kill(runner)

    survivor = await only(heir)
    lonely.go("grader")
    completion = await lonely.adopt(survivor)
    assert lonely.started() == ALL
    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.barrier) == ("pass", "fresh_container")
    assert facts(completion) == await undisturbed(lonely, tmp_path / "calm")
    assert [path.name for path in lonely.folders.root.glob("layer*")] == ["layer.tar.zst"]
    assert await containers(engine, lonely) == []


async def test_the_second_try_of_a_grader_is_counted_after_a_crash(
    lonely: Lonely, heir: LocalExecutor, tmp_path: Path
) -> None:
    lonely.retries = 1
    lonely.grade = f"[ -e tried ] || {{ touch tried; exit 1; }}; touch /agentlab/in/x; {lonely.grade}"
    runner = lonely.start_runner()
    await lonely.until("setup")
    lonely.go(*ALL)
    await lonely.until(*ALL, "grader")
    kill(runner)

    completion = await lonely.adopt(await only(heir))
    assert completion.grader_tries == 2
    assert facts(completion) == await undisturbed(lonely, tmp_path / "calm")


async def test_another_runs_containers_are_never_touched(
    lonely: Lonely, heir: LocalExecutor, engine: Engine, tmp_path: Path
) -> None:
    other = Lonely(run_dir=tmp_path / "other", image=lonely.image)
    runner = other.start_runner()
    await other.until("setup")
    kill(runner)
    copy = Lonely(run_dir=tmp_path / "copy", image=lonely.image)
    copy.run_dir.mkdir()

    assert await heir.survivors() == ()
    assert await heir.reap(frozenset()) == 0
    stranger = copy.executor()
    assert await stranger.reap(frozenset()) == 0
    await stranger.close()
    (container,) = await containers(engine, other)
    assert (await engine.look(container)).is_alive
    owner = other.executor()
    assert await owner.reap(frozenset({other.token})) == 0
    assert await owner.reap(frozenset()) == 1
    await owner.close()


async def test_survivors_are_not_known_while_the_engine_does_not_answer(
    lonely: Lonely, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labrunner.errors import SandboxFailed

    lonely.run_dir.mkdir()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{lonely.run_dir}/nobody")
    executor = lonely.executor()
    with pytest.raises(SandboxFailed):
        await executor.survivors()
    await executor.close()


async def test_a_container_that_was_removed_meanwhile_is_a_failure_of_the_sandbox(
    lonely: Lonely, heir: LocalExecutor, engine: Engine
) -> None:
    runner = lonely.start_runner()
    await lonely.until("setup")
    kill(runner)
    survivor = await only(heir)
    for container in await containers(engine, lonely):
        await engine.remove(container)
    completion = await lonely.adopt(survivor)
    assert isinstance(completion.end, Failed)
    assert (completion.end.cause, completion.end.reason) == ("sandbox", "container_gone")
