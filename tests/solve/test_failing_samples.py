import asyncio
import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.log import EvalLog
from labrunner.solve.authoring.scorer import scorer
from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.library.scorers import includes
from labrunner.solve.library.solvers import generate, user_message
from labrunner.solve.models.backend import ProviderTrouble
from labrunner.solve.models.mock import trouble
from labrunner.solve.values.sample import Target
from labrunner.solve.values.score import Score
from labrunner.solve.values.state import TaskState
from tests.kit.solve.authoring import answering, make_task, retry, run, samples, write_task


def failing_first(times: int) -> object:
    """A solver whose first attempts at each sample fail, after it has spoken."""
    tried: Counter[str] = Counter()

    @solver
    def flaky() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            assert len(state.messages) == 1
            state = await generate(state)
            tried[state.sample_id] += 1
            if tried[state.sample_id] <= times:
                raise ValueError(f"attempt {tried[state.sample_id]}")
            return state

        return solve

    return flaky()


def test_a_retried_sample_records_its_errors_and_starts_from_the_original_messages(tmp_path: Path) -> None:
    log = run(make_task(samples("a"), solver=failing_first(1)), tmp_path, retry_on_error=1)
    assert log.status == "success"
    sample = log.samples[0]
    assert (sample.attempts, sample.error) == (2, None)
    assert [(each.attempt, each.cause, each.reason) for each in sample.error_retries] == [
        (1, "solver", "ValueError")
    ]
    assert "attempt 1" in sample.error_retries[0].message
    assert "flaky" not in sample.error_retries[0].message
    assert "raise ValueError" in str(sample.error_retries[0].traceback)
    assert [event["event"] for event in sample.attempt_events(1)][-2:] == ["error", "end"]
    assert len(sample.messages) == 2
    both = sum(
        event["usage"]["total_tokens"]
        for attempt in (1, 2)
        for event in sample.attempt_events(attempt)
        if event["event"] == "model"
    )
    assert sample.model_usage.total_tokens == both


def test_retries_used_up_make_the_error_final(tmp_path: Path) -> None:
    task = make_task(samples("a", "b"), solver=failing_first(9), fail_on_error=False)
    log = run(task, tmp_path, retry_on_error=2)
    assert log.status == "success"
    assert log.results.failed_samples == 2
    assert log.results.scores == []
    sample = log.samples[0]
    assert sample.scores is None
    assert sample.error is not None
    assert (sample.error.attempt, sample.error.cause) == (3, "solver")
    assert len(sample.error_retries) == 2


def test_the_first_error_ends_a_run_by_default(tmp_path: Path) -> None:
    log = run(make_task(solver=failing_first(9)), tmp_path, max_concurrency=1)
    assert log.status == "error"
    assert log.error is not None
    assert "attempt 1" in log.error.message
    assert log.error.cause == "solver"


@pytest.mark.parametrize(
    ("tolerated", "failing", "status"),
    [(0.1, 1, "success"), (0.1, 2, "error"), (5, 5, "success"), (5, 6, "error"), (1, 1, "success")],
)
def test_errors_beyond_the_threshold_fail_the_run(
    tmp_path: Path, tolerated: float, failing: int, status: str
) -> None:
    def answer(text: str) -> str:
        if int(text) < failing:
            raise ValueError("no")
        return text

    task = make_task(samples(*map(str, range(10))), fail_on_error=tolerated)
    assert run(task, tmp_path, answering(answer)).status == status


def test_a_scorers_exception_is_an_error_that_is_retried(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    @scorer()
    def flaky() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            asked[state.sample_id] += 1
            if asked[state.sample_id] == 1:
                raise KeyError("no such thing")
            return Score(1)

        return score

    log = run(make_task(samples("a"), scorer=[includes(), flaky()]), tmp_path, retry_on_error=1)
    sample = log.samples[0]
    assert log.status == "success"
    assert [(each.cause, each.reason) for each in sample.error_retries] == [("solver", "KeyError")]
    assert "scoring: KeyError" in sample.error_retries[0].message


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "score_not_finite"),
        ("perhaps", "score_not_number"),
        ({}, "score_empty"),
        (None, "score_not_number"),
    ],
)
def test_a_score_that_is_none_is_an_error(tmp_path: Path, value: object, reason: str) -> None:
    @scorer()
    def odd() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value)  # type: ignore[arg-type] # on purpose

        return score

    log = run(make_task(samples("a"), scorer=odd(), fail_on_error=False), tmp_path)
    error = log.samples[0].error
    assert error is not None
    assert (error.cause, error.reason) == ("solver", reason)


@pytest.mark.parametrize(
    "raised", [TimeoutError("slow"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()]
)
def test_whatever_a_solver_raises_is_its_error_and_ends_nothing_else(
    tmp_path: Path, raised: BaseException
) -> None:
    async def odd(state: TaskState) -> TaskState:
        if state.input_text == "bad":
            raise raised
        return state

    task = make_task(samples("bad", "good"), solver=[odd, generate()], fail_on_error=False)
    log = run(task, tmp_path)
    assert log.status == "success"
    bad, good = log.samples
    assert bad.error is not None
    assert bad.error.cause == "solver"
    assert good.score is not None


def test_a_solver_that_returns_no_state_is_told_so(tmp_path: Path) -> None:
    async def forgetful(state: TaskState) -> None:
        state.messages.clear()

    log = run(make_task(samples("a"), solver=forgetful, fail_on_error=False), tmp_path)
    assert "solver forgetful returned NoneType" in str(log.samples[0].error)


def test_provider_trouble_is_retried_by_the_client_first(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def answer(text: str) -> str:
        asked[text] += 1
        if asked[text] < 3:
            raise trouble(503, "busy", retry_after_s=0.01)
        return text

    log = run(make_task(samples("a")), tmp_path, answering(answer))
    sample = log.samples[0]
    assert (log.status, sample.attempts) == ("success", 1)
    assert [event["reason"] for event in sample.events if event["event"] == "retry"] == ["http_503"] * 2


def test_provider_trouble_that_stays_is_blamed_on_the_provider(tmp_path: Path) -> None:
    def answer(text: str) -> str:
        raise trouble(429, "slow down", retry_after_s=0.0)

    task = make_task(samples("a"), fail_on_error=False)
    log = run(task, tmp_path, answering(answer), max_retries=2)
    error = log.samples[0].error
    assert error is not None
    assert (error.cause, error.reason) == ("provider", "http_429")
    assert len([event for event in log.samples[0].events if event["event"] == "retry"]) == 2


def test_trouble_that_no_patience_mends_is_not_tried_again(tmp_path: Path) -> None:
    def answer(text: str) -> str:
        raise ProviderTrouble("http_401", "who are you?", is_transient=False)

    log = run(make_task(samples("a"), fail_on_error=False), tmp_path, answering(answer))
    assert [event["event"] for event in log.samples[0].events if event["event"] == "retry"] == []


def test_a_providers_failure_wrapped_by_a_solver_stays_the_providers(tmp_path: Path) -> None:
    @solver
    def wrapping() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(generate(state))
            except ExceptionGroup as error:
                raise RuntimeError("all went wrong") from error
            return state

        return solve

    task = make_task(samples("a"), solver=wrapping(), fail_on_error=False)
    log = run(task, tmp_path, "mock/fail=400")
    error = log.samples[0].error
    assert error is not None
    assert (error.cause, error.reason) == ("provider", "http_400")


FLAKY = """
import pathlib
@solver
def fragile():
    async def solve(state, generate):
        if pathlib.Path("{folder}", "broken-" + state.input_text).exists():
            raise ValueError("broken")
        with open(pathlib.Path("{folder}", "asked.txt"), "a") as file:
            file.write(state.input_text + "\\n")
        return await generate(state)
    return solve

@task
def fragile_task(extra: str = ""):
    return Task(
        dataset=[Sample(input=c, target=c) for c in "abcd" + extra], solver=fragile(), scorer=includes()
    )
"""


def test_a_retry_runs_only_what_failed_and_keeps_the_lineage(tmp_path: Path) -> None:
    file = write_task(tmp_path, FLAKY.format(folder=tmp_path))
    broken = tmp_path / "broken-c"
    broken.touch()
    log = run(str(file), tmp_path, fail_on_error=False)
    assert [sample.error is None for sample in log.samples] == [True, True, False, True]
    broken.unlink()
    again = retry(log, max_connections=3)
    assert again.status == "success"
    assert again.eval.task_id == log.eval.task_id
    assert again.eval.run_id != log.eval.run_id
    assert again.location != log.location
    assert [sample.score is not None for sample in again.samples] == [True] * 4
    assert sorted((tmp_path / "asked.txt").read_text().split()) == ["a", "b", "c", "d"]
    recorded = json.loads((Path(again.location) / "run.json").read_text())
    assert recorded["experiment"]["policy"]["max_connections"] == 3
    assert again.samples[0].messages[-1].content == "a"


def test_errors_and_usage_of_the_runs_before_stay_with_a_sample_through_retries(tmp_path: Path) -> None:
    spoilt = FLAKY.replace("        if pathlib", "        await generate(state)\n        if pathlib")
    file = write_task(tmp_path, spoilt.format(folder=tmp_path))
    broken = tmp_path / "broken-c"
    broken.touch()
    first = run(str(file), tmp_path, fail_on_error=False)
    second = retry(first)
    broken.unlink()
    third = retry(second)
    sample = third.samples[2]
    assert sample.score is not None
    assert [(each.run_id, each.cause, each.reason) for each in sample.error_retries] == [
        (first.eval.run_id, "solver", "ValueError"),
        (second.eval.run_id, "solver", "ValueError"),
    ]
    assert sample.attempts == 3
    # Two requests in the run that ended well, one in each before.
    assert sample.model_usage.total_tokens == 2 * third.samples[0].model_usage.total_tokens
    assert third.samples[0].error_retries == []


def test_a_retry_by_path_or_id_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_task(tmp_path, FLAKY.format(folder=tmp_path))
    log = run(str(file), tmp_path)
    from labrunner.evaluation.evaluate import eval_retry

    assert eval_retry(log.location, display=False)[0].status == "success"
    assert eval_retry([Path(log.location), EvalLog(log.location)], display=False)[1].status == "success"
    assert (tmp_path / "asked.txt").read_text().count("a") == 1


def test_a_retry_with_other_arguments_runs_what_they_change(tmp_path: Path) -> None:
    file = write_task(tmp_path, FLAKY.format(folder=tmp_path))
    log = run(str(file), tmp_path)
    again = retry(log, task_args={"extra": "e"})
    assert [sample.input for sample in again.samples] == ["a", "b", "c", "d", "e"]


def test_a_changed_solver_file_runs_everything_again(tmp_path: Path) -> None:
    file = write_task(tmp_path, FLAKY.format(folder=tmp_path))
    log = run(str(file), tmp_path)
    file.write_text(file.read_text() + "\nOTHER = 1\n")
    assert retry(log).status == "success"
    assert (tmp_path / "asked.txt").read_text().count("a") == 2


def test_a_task_made_outside_a_task_function_can_not_be_retried(tmp_path: Path) -> None:
    log = run(make_task(), tmp_path)
    with pytest.raises(InputError, match="made outside of an @task function"):
        retry(log)


def test_an_interrupted_run_returns_its_cancelled_log(tmp_path: Path) -> None:
    asked = threading.Event()

    @solver
    def waiting() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state = await generate(state)
            if state.input_text == "wait":
                asked.set()
                await asyncio.sleep(60)
            return state

        return solve

    def interrupt() -> None:
        asked.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    texts = ["a", "b", "wait", "c"]
    log = run(make_task(samples(*texts), solver=waiting()), tmp_path, grace=0.1, max_concurrency=4)
    assert log.status == "cancelled"
    ended = {str(sample.input): sample.error is None for sample in log.samples}
    assert ended == {"a": True, "b": True, "wait": False, "c": True}
    left = list(Path(log.location).glob("trials/3.*/1/transcript.jsonl"))
    assert len(left) == 1
    assert b'"content":"wait"' in left[0].read_bytes()


def test_a_limit_is_a_result_that_no_retry_follows(tmp_path: Path) -> None:
    task = make_task(samples("a"), solver=[generate(), user_message("more"), generate()], message_limit=3)
    log = run(task, tmp_path, retry_on_error=3)
    sample = log.samples[0]
    assert (log.status, sample.attempts, sample.error) == ("success", 1, None)
    assert sample.limit is not None
    assert (sample.limit.type, sample.limit.limit) == ("messages", 3)
    assert sample.score is not None
