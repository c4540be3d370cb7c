"""How attempts end when something other than the agent fails: each cause from the engine's own state."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.experiment.resolved import WorkspaceFile
from labrunner.records.cause import Cause
from labrunner.records.completion import Completion, Failed, Graded
from labrunner.sandbox.docker.attempt.patience import ContainerPatience
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import PLACE
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.marks import RunMark
from tests.kit.docker.privatedaemon import Daemon
from tests.kit.docker.testimages import ASH, ensure
from tests.kit.docker.trials import PASS, Trial, python, shell

WAIT = "echo here > here; while [ ! -e /agentlab/in/go ]; do sleep 0.05; done"


@pytest.fixture
def trial(tmp_path: Path, ash: str) -> Trial:
    return Trial(root=tmp_path / "run", image=ash, grader=shell(PASS))


async def run_and(trial: Trial, act: Callable[[], Awaitable[None]]) -> Completion:
    """Carry the trial out, and do something to it when its agent runs."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(trial.carry_out())
        async with asyncio.timeout(30):
            while not (trial.folders.workspace / "here").exists():
                await asyncio.sleep(0.02)
        await act()
    return task.result()


async def container_of(engine: Engine, trial: Trial) -> str:
    place = RunMark.of(trial.root, "the-run").place
    (container,) = await engine.list(f"{PLACE}={place}")
    return container.id


def blamed_on_sandbox(completion: Completion, *reasons: str) -> None:
    assert isinstance(completion.end, Failed), completion.end
    assert completion.end.cause is Cause.SANDBOX
    assert completion.end.reason in reasons, completion.end


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    yield engine
    await engine.close()


@pytest.mark.parametrize("phase", ["agent", "grader"])
async def test_a_container_killed_from_outside_is_the_sandboxs_failure(
    trial: Trial, engine: Engine, phase: str
) -> None:
    if phase == "agent":
        trial.agent = shell(WAIT)
    else:
        trial.grader = shell(WAIT)

    async def act() -> None:
        await engine.kill(await container_of(engine, trial))

    blamed_on_sandbox(await run_and(trial, act), "killed_outside")


async def test_a_container_removed_by_somebody_else_is_the_sandboxs_failure(
    trial: Trial, engine: Engine
) -> None:
    trial.agent = shell(WAIT)
    trial.expects_container = False

    async def act() -> None:
        await engine.remove(await container_of(engine, trial))

    blamed_on_sandbox(await run_and(trial, act), "killed_outside", "container_gone")


async def test_an_image_that_is_gone_is_the_sandboxs_failure(trial: Trial) -> None:
    trial.image = "lab-test:never-made"
    trial.sandbox = {"pull": "never"}
    trial.expects_container = False
    completion = await trial.carry_out()
    blamed_on_sandbox(completion, "image_missing")


async def test_an_engine_that_is_not_there_is_the_sandboxs_failure(trial: Trial, tmp_path: Path) -> None:
    trial.maker = DockerMaker(Engine(f"unix://{tmp_path}/nobody"))
    trial.expects_container = False
    blamed_on_sandbox(await trial.carry_out(), "engine_gone")


async def test_an_agent_that_ends_by_a_signal_is_graded(trial: Trial) -> None:
    trial.agent = shell("kill -SEGV $$")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.agent is not None
    assert completion.agent.exit_status == 139


async def test_an_agent_that_stops_its_watchdog_is_ended_from_outside(trial: Trial) -> None:
    trial.maker = DockerMaker(patience=ContainerPatience(grace_s=1.0))
    trial.agent = shell("killall sleep; trap '' TERM; while :; do :; done")
    trial.agent_changes["timeout_s"] = 1
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.end.ended_by) == ("pass", "timeout")


async def test_a_wrapper_that_can_not_write_its_notes_does_not_hang(trial: Trial) -> None:
    trial.maker = DockerMaker(patience=ContainerPatience(grace_s=1.0))
    trial.agent = python("import resource\nresource.prlimit(1, resource.RLIMIT_FSIZE, (0, 0))")
    trial.agent_changes["timeout_s"] = 2
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.verdict == "fail"
    assert completion.end.ended_by == "wrapper_killed"


need_root = pytest.mark.skipif(os.geteuid() != 0, reason="starting an engine needs root")


@pytest_asyncio.fixture(params=[True, False], ids=["live-restore", "plain"])
async def daemon(request: pytest.FixtureRequest) -> AsyncIterator[Daemon]:
    daemon = Daemon(live_restore=request.param)
    try:
        await daemon.start()
        engine = Engine(daemon.url)
        await ensure(engine, ASH)
        await engine.close()
        yield daemon
    finally:
        await daemon.destroy()


@need_root
@pytest.mark.root
@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_an_engine_that_is_restarted_is_never_the_agents_failure(
    trial: Trial, daemon: Daemon, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    trial.maker = DockerMaker(Engine(daemon.url))
    trial.image = ASH.tag
    trial.agent = shell(f"{WAIT}; echo done > answer")
    trial.grader = shell(f"cat answer; {PASS}")
    trial.expects_container = False

    async def act() -> None:
        daemon.kill(number)
        await asyncio.sleep(0.5)
        await daemon.start()
        (trial.folders.inputs / "go").touch()

    completion = await run_and(trial, act)
    if "live-restore" in request.node.name:
        assert isinstance(completion.end, Graded), completion.end
        assert completion.end.verdict == "pass"
    else:
        blamed_on_sandbox(completion, "engine_restarted", "killed_outside")


@pytest.mark.parametrize(
    ("agent", "left_nothing"),
    [
        ("exit 41", True),
        ("echo x > answer; exit 41", False),
        ("echo x > /agentlab/out/notes; exit 41", False),
    ],
)
async def test_an_agent_that_left_nothing_is_known(
    tmp_path: Path, ash: str, agent: str, left_nothing: bool
) -> None:
    files = (WorkspaceFile(path="given.txt", content="given", source=None),)
    trial = Trial(root=tmp_path / "run", image=ash, agent=shell(agent), task={"files": files})
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.timing.left_nothing is left_nothing
