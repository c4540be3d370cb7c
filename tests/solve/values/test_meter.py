import asyncio
import time
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.library.modelgraded import model_graded_qa
from labrunner.solve.library.solvers import generate
from labrunner.solve.models.asking import get_model, mock_model
from labrunner.solve.models.mock import trouble
from labrunner.solve.values.messages import ModelUsage
from labrunner.solve.values.meter import LimitExceeded, Limits, Meter
from labrunner.solve.values.state import TaskState
from tests.kit.solve.authoring import make_task, run, samples, spending


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@solver
def chatting(turns: int = 50) -> object:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for _ in range(turns):
            state = await generate(state)
        return state

    return solve


def ended_by(tmp_path: Path, model: object = "mock/echo", **fields: object) -> tuple[str | None, int]:
    """The limit that ended a sample, and how often its model was asked."""
    task = make_task(samples("answer"), **{"solver": chatting(), **fields})
    log = run(task, tmp_path, model)
    assert log.status == "success"
    sample = log.samples[0]
    assert sample.score is not None
    assert sample.error is None
    asked = [event for event in sample.events if event["event"] == "model"]
    return (sample.limit.type if sample.limit else None, len(asked))


def test_tokens_end_a_solver_and_the_sample_is_scored_as_it_stands(tmp_path: Path) -> None:
    assert ended_by(tmp_path, spending(10), token_limit=25) == ("tokens", 3)


def test_cost_ends_a_solver(tmp_path: Path) -> None:
    assert ended_by(tmp_path, spending(1, 0.5), cost_limit=1.0) == ("cost", 3)


def test_money_is_summed_to_the_cent(tmp_path: Path) -> None:
    assert ended_by(tmp_path, spending(1, 0.1), cost_limit=0.3) == ("cost", 4)


def test_messages_end_a_solver_before_another_turn(tmp_path: Path) -> None:
    assert ended_by(tmp_path, message_limit=5) == ("messages", 4)


def test_a_limit_that_a_solver_catches_stands_at_the_next_request(tmp_path: Path) -> None:
    @solver
    def stubborn() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            for _ in range(3):
                try:
                    state = await generate(state)
                except LimitExceeded:
                    continue
            return await generate(state)

        return solve

    assert ended_by(tmp_path, spending(10), token_limit=5, solver=stubborn()) == ("tokens", 1)


def test_time_ends_a_solver_that_waits(tmp_path: Path) -> None:
    @solver
    def sleeping() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state = await generate(state)
            await asyncio.sleep(60)
            return state

        return solve

    started = time.monotonic()
    assert ended_by(tmp_path, time_limit=0.3, solver=sleeping()) == ("time", 1)
    assert time.monotonic() - started < 30


def test_a_solver_that_cleans_up_after_its_time_is_waited_for(tmp_path: Path) -> None:
    done: list[str] = []

    @solver
    def tidy() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                done.append(state.sample_id)
            return state

        return solve

    assert ended_by(tmp_path, time_limit=0.2, solver=tidy()) == ("time", 0)
    assert done == ["1"]


def test_working_time_counts_work(tmp_path: Path) -> None:
    @solver
    def working() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            await asyncio.sleep(60)
            return state

        return solve

    assert ended_by(tmp_path, working_limit=0.3, solver=working()) == ("working_time", 0)


def test_waiting_for_the_provider_is_no_working_time(tmp_path: Path) -> None:
    asked = 0

    def answer(request: object) -> str:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise trouble(429, "wait", retry_after_s=0.5)
        return "answer"

    model = mock_model(answer)
    assert ended_by(tmp_path, model, working_limit=0.6, solver=generate()) == (None, 1)


def test_scorers_are_not_held_to_the_limits_of_the_solver(tmp_path: Path) -> None:
    scorer = model_graded_qa(model=get_model("mock/say=GRADE: C"))
    assert ended_by(tmp_path, spending(10), token_limit=5, scorer=scorer, solver=generate()) == ("tokens", 2)


def test_a_limit_of_a_call_goes_over_the_tasks_own(tmp_path: Path) -> None:
    task = make_task(samples("a"), solver=chatting(), message_limit=3)
    log = run(task, tmp_path, message_limit=7)
    assert log.eval.limits == {"messages": 7}
    sample = log.samples[0]
    assert sample.limit is not None
    assert sample.limit.limit == 7


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_what_is_no_limit_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="must be a number above 0"):
        Limits(time_s=value)


def test_time_spent_waiting_twice_at_once_counts_once() -> None:
    clock = Clock()
    meter = Meter(Limits(working_s=10), clock)
    clock.now = 1.0
    with meter.waiting():
        clock.now = 2.0
        with meter.waiting():
            clock.now = 5.0
        assert meter.waited_s == 4.0
        clock.now = 6.0
    clock.now = 8.0
    assert (meter.waited_s, meter.working_s, meter.working_left_s) == (5.0, 3.0, 7.0)


def test_costs_are_unknown_until_somebody_knows_one() -> None:
    assert (ModelUsage() + ModelUsage()).cost_usd is None
    assert (ModelUsage(cost_usd=1.0) + ModelUsage()).cost_usd == 1.0
    assert (ModelUsage(cost_usd=1.0) + ModelUsage(cost_usd=0.5)).cost_usd == 1.5


def test_a_request_that_is_refused_is_not_counted() -> None:
    meter = Meter(Limits(tokens=10), Clock())
    with pytest.raises(LimitExceeded):
        meter.count(ModelUsage(total_tokens=11))
    with pytest.raises(LimitExceeded):
        meter.check_spent()
    assert meter.requests == 1
