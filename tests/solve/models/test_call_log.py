"""Calls of Python tasks are rows like those of any other agent's, with the same prices."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labrunner.log import EvalLog
from labrunner.query.database import ask
from labrunner.solve.authoring.scorer import scorer
from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.models.asking import get_model, mock_model
from labrunner.solve.models.backend import ProviderTrouble
from labrunner.solve.scoring.metrics import mean
from labrunner.solve.values.sample import Target
from labrunner.solve.values.score import Score
from labrunner.solve.values.state import TaskState
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from tests.kit.solve.authoring import make_task, run, samples, spending
from tests.kit.solve.chatserver import ChatServer, Refuse, Say, serving


def calls_of(log: EvalLog, columns: str) -> list[tuple[Any, ...]]:
    with ask(
        [RunPaths(Path(log.location))], f"select {columns} from calls order by trial_id, ordinal"
    ) as answer:
        return list(answer.rows())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests")
    with serving(lambda asked: Say(text="yes")) as made:
        yield made


def test_each_answer_of_a_model_is_a_row_and_the_run_is_sound(tmp_path: Path) -> None:
    log = run(make_task(samples("a", "b")), tmp_path, spending(10, 0.5))
    found = calls_of(
        log, "provider, model, purpose, outcome, attempt, ordinal, output_tokens, cost_usd, protocol"
    )
    assert found == [("mock", "spend", "generate", "answered", 1, 0, 10, 0.5, "python")] * 2
    paths = RunPaths(Path(log.location))
    assert verify(paths).is_sound
    for rows in iter_finished(paths):
        assert [ref.path for ref in rows.timing.attempts[0].logs] == ["transcript.jsonl", "calls.jsonl"]
        assert "unpriced_requests" not in rows.timing.attempts[0].usage


def test_a_task_that_asks_no_model_has_no_rows(tmp_path: Path) -> None:
    @solver
    def quiet() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.output.completion = "a"
            return state

        return solve

    log = run(make_task(samples("a"), solver=quiet()), tmp_path, None)
    assert calls_of(log, "*") == []


def test_tries_that_failed_stand_in_the_row_of_the_answer(tmp_path: Path) -> None:
    failed: list[str] = []

    def answer(request: object) -> str:
        if not failed:
            failed.append("once")
            raise ProviderTrouble("http_429", "slow down", is_transient=True, retry_after_s=0.01)
        return "a"

    log = run(make_task(samples("a")), tmp_path, mock_model(answer))
    assert calls_of(log, "outcome, status, tries, error_kind") == [("answered", 200, 1, None)]


@pytest.mark.parametrize(
    ("reason", "outcome", "status"), [("http_401", "error", 401), ("timeout", "unreachable", None)]
)
def test_a_call_without_an_answer_is_a_row_too(
    tmp_path: Path, reason: str, outcome: str, status: int | None
) -> None:
    def answer(request: object) -> str:
        raise ProviderTrouble(reason, "no", is_transient=False)

    log = run(make_task(samples("a")), tmp_path, mock_model(answer), fail_on_error=False)
    found = calls_of(log, "outcome, status, error_kind, error, input_tokens")
    assert found == [(outcome, status, reason, "no", None)]


def test_a_judges_calls_are_told_apart(tmp_path: Path) -> None:
    @scorer(metrics=[mean()])
    def judge() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            output = await get_model().generate("is it good?")
            return Score(1.0, explanation=output.completion)

        return score

    log = run(make_task(samples("a"), scorer=judge()), tmp_path, spending(10))
    assert calls_of(log, "ordinal, purpose") == [(0, "generate"), (1, "score")]


def test_a_providers_answer_has_its_price_with_its_source(tmp_path: Path, server: ChatServer) -> None:
    log = run(make_task(samples("a")), tmp_path, "openai/gpt-4o-mini", model_base_url=server.url)
    ((model, cost, source, priced_on, started),) = calls_of(
        log, "model, cost_usd, price_source, priced_on, started_at"
    )
    assert (model, cost > 0) == ("gpt-4o-mini", True)
    assert source.startswith("genai-prices ")
    assert source.endswith(": openai/gpt-4o-mini")
    assert priced_on == started.date()


def test_answers_without_a_price_are_counted(tmp_path: Path, server: ChatServer) -> None:
    log = run(make_task(samples("a")), tmp_path, "openai/home-made", model_base_url=server.url)
    (rows,) = iter_finished(RunPaths(Path(log.location)))
    usage = rows.timing.attempts[0].usage
    assert "cost_usd" not in usage
    assert usage["unpriced_requests"] == 1
    assert calls_of(log, "cost_usd, price_source") == [(None, None)]


def test_keys_in_what_a_provider_says_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests")
    refusal = Refuse(status=401, code="a-key-for-tests")
    with serving(lambda asked: refusal) as server:
        log = run(
            make_task(samples("a")),
            tmp_path,
            "openai/gpt-4o-mini",
            model_base_url=server.url,
            fail_on_error=False,
        )
    ((error,),) = calls_of(log, "error")
    assert "[masked:OPENAI_API_KEY]" in error
    assert "a-key-for-tests" not in error
