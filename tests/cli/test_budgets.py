"""Budgets with the real `lab`: agents that report their cost, stopped, killed and continued."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from tests.kit.cli.calling import AGENT_SHOUTS, GRADER, LAB, environment, lab, write_experiment
from tests.kit.runner.running import committed_bytes
from tests.kit.waiting import wait_for

REPORTS = """
import json, os, pathlib
names = ("run_id", "trial_id", "variant_id", "task_id")
ids = {name: os.environ["AGENTLAB_" + name.upper()] for name in names}
told = {
    "schema_version": "agent_result_v1",
    "ids": {**ids, "repl_idx": int(os.environ["AGENTLAB_REPL_IDX"])},
    "outcome": "success",
    "metrics": {"cost_usd": 0.1, "input_tokens": 30, "output_tokens": 12},
}
pathlib.Path(os.environ["AGENTLAB_RESULT_PATH"]).write_text(json.dumps(told))
"""
WAITS = """
import os, time
at = (os.environ["AGENTLAB_TASK_ID"], os.environ["AGENTLAB_ATTEMPT"])
while at in {("t5", "1"), ("t7", "4")} and os.environ["MOOD"] == "wait-for-the-kill":
    time.sleep(0.05)
"""
FAILS_AT_T7 = """
import os
if os.environ["AGENTLAB_TASK_ID"] == "t7" and int(os.environ["AGENTLAB_ATTEMPT"]) < 4:
    raise SystemExit(1)
"""


def spent(root: Path) -> list[dict[str, Any]]:
    lines = (root / "facts/timings.jsonl").read_text().splitlines()
    return [attempt["usage"] for line in lines for attempt in json.loads(line)["attempts"]]


@pytest.mark.bwrap
def test_a_run_of_agents_that_report_stops_at_its_budget_and_goes_on_with_a_larger_one(
    tmp_path: Path,
) -> None:
    extra = "max_concurrency: 1\nbudget: {cost_usd: 0.3}\n"
    write_experiment(tmp_path, sandbox="bubblewrap", tasks=6, agent=AGENT_SHOUTS + REPORTS, extra=extra)
    stopped = lab("run", "--run-id", "mine", cwd=tmp_path)
    same = lab("continue", cwd=tmp_path)
    more = lab("continue", "--set", "budget.cost_usd=0.45", cwd=tmp_path)
    rest = lab("continue", "--set", "budget={tokens: 100000}", cwd=tmp_path)

    assert stopped.code == 1
    told = " ".join(stopped.out.split())
    assert "error: 3 of 6 trials finished" in told
    assert "the budget of 0.3 USD is used up: 0.3 spent in 3 attempts" in told
    assert "lab continue --set budget.cost_usd=X" in told
    assert "stopped or crashed: `lab continue`" in told
    assert (same.code, "0.3 spent in 3 attempts" in " ".join(same.out.split())) == (1, True)
    assert (more.code, "0.5 spent in 5 attempts" in " ".join(more.out.split())) == (1, True)
    assert rest.code == 0, rest.err
    assert len(spent(tmp_path / ".lab/runs/mine")) == 6
    assert all(usage["tokens"] == 42 for usage in spent(tmp_path / ".lab/runs/mine"))
    shown = lab("show", "mine", cwd=tmp_path).out
    assert "cost (USD)" in shown
    assert "tokens" in shown
    # Where and how often it was stopped does not show in what is committed.
    assert lab("run", "--run-id", "mine", "--log-dir", "free", "--set", "budget={}", cwd=tmp_path).code == 0
    assert committed_bytes(tmp_path / ".lab/runs/mine") == committed_bytes(tmp_path / "free/mine")


@pytest.mark.bwrap
@pytest.mark.crash
def test_what_was_spent_before_a_kill_is_known_after_it(tmp_path: Path) -> None:
    """When the owner is killed, t5 and the fourth attempt at t7 are under way, t6 waits in the buffer."""
    write_experiment(
        tmp_path,
        sandbox="bubblewrap",
        tasks=14,
        agent=WAITS + AGENT_SHOUTS + REPORTS,
        grader=FAILS_AT_T7 + GRADER,
        extra="retry_on_error: 5\nbudget: {cost_usd: 1.45}\n",
    )
    settings = ["--set", "agent.secrets=[MOOD]", "--set", "grader.retries=0", "--max-concurrency", "2"]
    owner = subprocess.Popen(
        [LAB, "run", "--run-id", "mine", *settings],
        cwd=tmp_path,
        env=environment(MOOD="wait-for-the-kill"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: list(tmp_path.glob(".lab/runs/mine/trials/t7.*/4")))
    owner.kill()
    owner.wait()
    going_on = lab("continue", "--max-concurrency", "1", cwd=tmp_path, env={"MOOD": "go-on-to-the-end"})

    assert going_on.code == 1, going_on.err
    # 5 trials committed, 1 in the buffer, 3 failed attempts: 9 before. Then t5, t7 and four more.
    assert "1.5 spent in 15 attempts;" in " ".join(going_on.out.split())
    attempts = [rows.timing.attempts for rows in iter_finished(RunPaths(tmp_path / ".lab/runs/mine"))]
    assert [len(each) for each in attempts] == [1] * 7 + [4] + [1] * 4
    assert lab("verify", "mine", cwd=tmp_path).code == 0


def test_where_nobody_reports_a_warning_stands_in_the_terminal_and_in_the_summary(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=5, extra="max_concurrency: 1\nbudget: {cost_usd: 1}\n")
    run = lab("run", cwd=tmp_path)
    told = "no attempt reports `cost_usd`, so the budget of 1 USD will never stop this run"
    assert run.code == 0
    assert run.err.count(f"warning: {told}\n") == 1
    assert f"warning: {told}" in " ".join(run.out.split())
    assert told in " ".join(lab("show", "last", cwd=tmp_path).out.split())


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("budget.cost_usd=0", "--set budget.cost_usd=0: budget.cost_usd: must be greater than 0"),
        ("budget.dollars=5", "--set budget.dollars=5: budget.dollars: there is no such field"),
        ("agent.timeout_s=5", "--set agent.timeout_s=5: is not policy"),
    ],
)
def test_only_sound_policy_can_be_set_when_a_run_goes_on(tmp_path: Path, setting: str, said: str) -> None:
    write_experiment(
        tmp_path, agent=AGENT_SHOUTS + REPORTS, extra="budget: {tokens: 1}\nmax_concurrency: 1\n"
    )
    assert lab("run", cwd=tmp_path).code == 1
    refused = lab("continue", "--set", setting, cwd=tmp_path)
    assert refused.code == 2
    assert said in refused.err


def test_a_set_does_not_spend_a_budget_again_and_again(tmp_path: Path) -> None:
    write_experiment(
        tmp_path, agent=AGENT_SHOUTS + REPORTS, extra="budget: {tokens: 1}\nmax_concurrency: 1\n"
    )
    ended = lab("set", "experiment.yaml", "--log-dir", "runs", "--retry-wait", "0", cwd=tmp_path)
    assert ended.code == 1
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 1


def test_a_budget_is_its_lineages_and_what_was_good_is_taken_over_all_the_same(tmp_path: Path) -> None:
    extra = "budget: {tokens: 84}\nmax_concurrency: 1\n"
    write_experiment(tmp_path, tasks=6, agent=AGENT_SHOUTS + REPORTS, extra=extra)
    assert lab("run", "--run-id", "first", cwd=tmp_path).code == 1
    second = lab("retry", "first", "--run-id", "second", cwd=tmp_path)
    again = lab("continue", "second", cwd=tmp_path)
    for ended in (second, again):
        assert ended.code == 1
        assert "84 spent in 2 attempts;" in " ".join(ended.out.split())
        assert len(spent(tmp_path / ".lab/runs/second")) == 2
    assert lab("continue", "second", "--set", "budget.tokens=1000", cwd=tmp_path).code == 0
    assert len(spent(tmp_path / ".lab/runs/second")) == 6
