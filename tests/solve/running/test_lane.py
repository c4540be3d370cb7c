import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.models.mailbox import Mailbox, call
from labrunner.solve.running import lane as lane_module
from labrunner.solve.running.lane import AbandonedLane, LanePace, Lanes, LeftByItself
from labrunner.solve.values.state import TaskState
from tests.kit.solve.authoring import make_task, run, samples

QUICK = LanePace(stuck_after_s=0.3, beat_s=0.05, give_up_s=0.5)


class Watched(Lanes):
    """Lanes that remember what they warned of."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.warned: list[str] = []
        self.told = asyncio.Event()
        self.loop = loop
        super().__init__(Mailbox(loop), self.hear, QUICK)

    def hear(self, text: str) -> None:
        self.warned.append(text)
        self.loop.call_soon_threadsafe(self.told.set)


@pytest.fixture
async def lanes() -> AsyncIterator[Watched]:
    made = Watched(asyncio.get_running_loop())
    yield made
    made.close()


async def test_work_runs_in_another_thread_and_its_result_comes_back(lanes: Watched) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert (await lanes.run("t", work)).startswith("lab-lane-")


async def test_what_work_raises_comes_back(lanes: Watched) -> None:
    async def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await lanes.run("t", work)


async def test_context_goes_along_and_calls_come_home(lanes: Watched) -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("mine")
    home = Mailbox(asyncio.get_running_loop())

    async def at_home() -> tuple[str, bool]:
        return name.get(), threading.current_thread() is threading.main_thread()

    async def work() -> tuple[str, bool]:
        return await call(home, at_home)

    assert await lanes.run("t", work) == ("mine", True)


async def test_cancelling_ends_the_work_before_it_returns(lanes: Watched) -> None:
    ended: list[str] = []
    begun = asyncio.Event()
    home = asyncio.get_running_loop()

    async def work() -> None:
        home.call_soon_threadsafe(begun.set)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("yes")

    task = asyncio.ensure_future(lanes.run("t", work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["yes"]


async def test_a_call_home_is_cancelled_with_its_caller(lanes: Watched) -> None:
    ended, begun = asyncio.Event(), asyncio.Event()
    home = Mailbox(asyncio.get_running_loop())

    async def at_home() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def work() -> None:
        await call(home, at_home)

    task = asyncio.ensure_future(lanes.run("t", work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 10)


async def test_blocking_work_is_named_and_others_go_on_beside_it(lanes: Watched) -> None:
    release = threading.Event()

    async def block() -> str:
        release.wait(30)
        return "done"

    async def quick() -> str:
        return threading.current_thread().name

    blocked = asyncio.ensure_future(lanes.run("trial-7", block))
    await asyncio.wait_for(lanes.told.wait(), 10)
    assert "trial trial-7" in lanes.warned[0]
    assert "test_lane.py" in lanes.warned[0] or "threading.py" in lanes.warned[0]
    assert await lanes.run("other", quick) == "lab-lane-2"
    release.set()
    assert await blocked == "done"
    assert len(lanes.warned) == 1


async def test_work_that_does_not_end_when_cancelled_is_abandoned(lanes: Watched) -> None:
    release, begun = threading.Event(), threading.Event()

    async def block() -> None:
        begun.set()
        release.wait(30)

    task = asyncio.ensure_future(lanes.run("t", block))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(AbandonedLane):
        await task
    release.set()


async def test_what_waited_in_a_blocked_lane_is_ended_when_the_lane_comes_back(lanes: Watched) -> None:
    release, begun, ended = threading.Event(), threading.Event(), threading.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    async def block() -> None:
        begun.set()
        release.wait(30)

    waiting = asyncio.ensure_future(lanes.run("w", wait))
    blocking = asyncio.ensure_future(lanes.run("b", block))
    await asyncio.to_thread(begun.wait)
    for task in (waiting, blocking):
        task.cancel()
        with pytest.raises(AbandonedLane):
            await task
    lanes.close()
    release.set()
    assert await asyncio.to_thread(ended.wait, 10)


async def test_work_that_a_blocked_lane_had_not_begun_is_never_begun(lanes: Watched) -> None:
    release, begun, made = threading.Event(), threading.Event(), threading.Event()

    async def block() -> None:
        begun.set()
        release.wait(30)

    def late() -> Coroutine[Any, Any, None]:
        made.set()
        return asyncio.sleep(0)

    blocking = asyncio.ensure_future(lanes.run("b", block))
    await asyncio.to_thread(begun.wait)
    waiting = asyncio.ensure_future(lanes.run("w", late))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(AbandonedLane):
        await waiting
    release.set()
    await blocking
    lanes.close()
    assert not made.is_set()


async def test_work_that_ends_itself_is_told_from_work_that_is_cancelled(lanes: Watched) -> None:
    async def quit() -> None:
        raise SystemExit(1)

    async def cancel() -> None:
        raise asyncio.CancelledError

    async def fine() -> str:
        return "fine"

    with pytest.raises(LeftByItself, match="SystemExit"):
        await lanes.run("t", quit)
    with pytest.raises(LeftByItself, match="cancelled itself"):
        await lanes.run("t", cancel)
    assert await lanes.run("t", fine) == "fine"


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), GeneratorExit(), BaseException("x"), BaseExceptionGroup("x", [SystemExit(1)])],
)
async def test_no_exception_of_work_gets_past_what_catches_errors(
    lanes: Watched, error: BaseException
) -> None:
    async def leave() -> None:
        raise error

    with pytest.raises(LeftByItself, match=type(error).__name__):
        await lanes.run("leaving", leave)


async def test_a_lane_that_has_ended_may_still_be_asked_for_a_sign_of_life() -> None:
    lane = lane_module.Lane(1, Mailbox(asyncio.get_running_loop()), QUICK)
    lane.close()
    assert lane.loop.is_closed()
    lane.beat()


async def test_many_letters_wake_a_loop_once() -> None:
    class Counting(asyncio.SelectorEventLoop):
        wakes = 0

        def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # counted only
            self.wakes += 1
            return super().call_soon_threadsafe(*args, **kwargs)

    loop = Counting()
    taken: list[int] = []
    box = Mailbox(loop)
    for number in range(100):
        box.post(taken.append, number)
    box.post(loop.stop)
    await asyncio.to_thread(loop.run_forever)
    loop.close()
    assert taken == list(range(100))
    assert loop.wakes == 1


def test_a_blocking_solver_stalls_neither_other_time_limits_nor_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Nobody who calls eval() has a say in this, and at its own pace it takes many seconds.
    monkeypatch.setattr(lane_module, "LANE_PACE", replace(QUICK, late_after_s=0.3))
    release = threading.Event()

    @solver
    def mixed() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.input_text == "block":
                release.wait(60)
            else:
                await asyncio.sleep(60)
            return state

        return solve

    started = time.monotonic()
    task = make_task(samples("block", "sleep"), solver=mixed(), time_limit=1.0)
    log = run(task, tmp_path, None, fail_on_error=False)
    took = time.monotonic() - started
    release.set()
    blocking, beside = log.samples
    assert blocking.limit is not None
    assert blocking.limit.type == "time"
    # What a trial could not do because of another one is missing data, not a failure.
    assert beside.error is not None
    assert "trial 1.baseline" in beside.error.message
    assert took < 30
    assert any("has blocked its event loop" in record.message for record in caplog.records)
    assert "1.baseline" in caplog.text
