"""Budgets of runs of Python tasks: what models and commands report counts alike."""

from pathlib import Path

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.solve.authoring.command import command_solver
from labrunner.solve.library.scorers import includes
from tests.kit.cli.calling import lab
from tests.kit.solve.authoring import make_task, retry, run, samples, spending, write_task

SIX = samples(*"abcdef", target="answer")
REPORTS = """
cat > "$$AGENTLAB_RESULT_PATH" <<END
{"schema_version": "agent_result_v1", "outcome": "success", "metrics": {"cost_usd": 0.5, "tokens": 10},
 "ids": {"run_id": "r", "trial_id": "t", "variant_id": "v", "task_id": "x", "repl_idx": 0}}
END
"""


@pytest.mark.parametrize(
    ("budget", "finished"),
    [({"tokens": 30}, 3), ({"tokens": 31}, 4), ({"cost_usd": 0.5}, 2), ({"tokens": 60}, 6), ({}, 6)],
)
def test_a_run_ends_when_its_models_have_used_up_its_budget(
    tmp_path: Path, budget: dict[str, float], finished: int
) -> None:
    log = run(make_task(SIX), tmp_path, spending(10, 0.25), budget=budget, max_concurrency=1)
    assert len(log.samples) == finished
    assert log.status == ("success" if finished == 6 else "error")
    if finished < 6:
        assert log.error is not None
        assert "is used up" in log.error.message


def test_a_retry_takes_a_budget_of_its_own(tmp_path: Path) -> None:
    file = write_task(
        tmp_path,
        "@task\ndef six():\n"
        "    dataset = [Sample(input=x, target=x) for x in 'abcdef']\n"
        "    return Task(dataset=dataset, solver=generate(), scorer=includes())\n",
    )
    log = run(f"{file}@six", tmp_path, "mock/echo", budget={"tokens": 1}, max_concurrency=1)
    again = retry(log, budget={"tokens": 10_000})
    assert (log.status, len(log.samples)) == ("error", 1)
    assert (again.status, len(again.samples)) == ("success", 6)


def test_a_model_without_a_price_is_told_of(tmp_path: Path) -> None:
    log = run(make_task(SIX), tmp_path, spending(10), budget={"cost_usd": 1})
    assert log.status == "success"
    shown = " ".join(lab("show", log.location, cwd=tmp_path).out.split())
    assert "no attempt reports `cost_usd`, so the budget of 1 USD will never stop this run" in shown


@pytest.mark.bwrap
def test_what_a_command_reports_counts_in_a_python_task(tmp_path: Path) -> None:
    task = make_task(SIX, solver=command_solver(REPORTS), scorer=includes(), sandbox="bubblewrap")
    log = run(task, tmp_path, None, budget={"cost_usd": 1}, max_concurrency=1)
    assert (log.status, len(log.samples)) == ("error", 2)
    assert log.samples[0].model_usage.total_tokens == 10


@pytest.mark.parametrize("budget", [{"cost_usd": 0}, {"tokens": "many"}, {"dollars": 3}, 5])
def test_a_budget_that_is_none_is_refused(tmp_path: Path, budget: object) -> None:
    with pytest.raises((InputError, InputErrors), match="budget"):
        run(make_task(SIX), tmp_path, budget=budget)
