import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli.calling import AGENT_SHOUTS, LAB, environment, lab, write_experiment
from tests.kit.cli.flaky import flaky, starts
from tests.kit.waiting import wait_for

SLOW = 'import os, time\nif os.environ["AGENTLAB_TASK_ID"] == "t1": time.sleep(600)\n' + AGENT_SHOUTS


def test_a_live_run_is_stopped_from_another_terminal(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent=SLOW)
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "x"], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
    )
    commits = tmp_path / ".lab/runs/x/commits.jsonl"
    wait_for(lambda: commits.exists() and commits.stat().st_size > 0)

    stopped = lab("stop", "x", "--now", cwd=tmp_path)

    assert process.wait(timeout=30) == 130
    assert str(process.pid) in stopped.out
    assert "not running" in lab("stop", "x", cwd=tmp_path).out
    assert lab("show", "x", "--json", cwd=tmp_path).json()["state"] == "cancelled"


def test_a_set_runs_until_all_succeeded_and_does_nothing_when_called_again(tmp_path: Path) -> None:
    for name, agent in (("good", AGENT_SHOUTS), ("flaky", FLAKY_ONCE)):
        write_experiment(tmp_path / name, agent=agent, name=name)
    (tmp_path / "marks").mkdir()
    words = (
        "set",
        "good/experiment.yaml",
        "flaky/experiment.yaml",
        "--log-dir",
        "logs",
        "--retry-wait",
        "0",
        "--env",
        f"MARKS={tmp_path / 'marks'}",
    )

    first = lab(*words, cwd=tmp_path)
    second = lab(*words, cwd=tmp_path)

    assert first.code == 0, first.err
    runs = lab("log", "list", "--log-dir", "logs", "--json", cwd=tmp_path).json()
    assert sorted((run["name"], run["state"]) for run in runs) == [
        ("flaky", "error"),
        ("flaky", "success"),
        ("good", "success"),
    ]
    assert second.code == 0
    assert second.err.count("succeeded before, nothing to do") == 2


def test_json_is_one_line_for_each_run_also_for_those_that_were_done_before(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_experiment(tmp_path / name, tasks=1, name=name)
    targets = ("one/experiment.yaml", "two/experiment.yaml", "--json", "--log-dir", "logs")

    def names(*words: str) -> list[str]:
        answer = lab(*words, cwd=tmp_path)
        assert answer.code == 0, answer.err
        lines = [json.loads(line) for line in answer.out.splitlines()]
        assert all(set(line) == {"run", "status", "summary"} for line in lines)
        return [line["run"].rpartition("_")[0].rpartition("_")[2] for line in lines]

    assert names("run", *targets) == ["one", "two"]
    assert names("set", *targets) == ["one", "two"]
    (path,) = (tmp_path / "logs").glob("*_two_*")
    assert names("continue", str(path), "--json") == ["two"]
    assert names("continue", "--log-dir", "logs", "--json") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_set_that_waits_for_its_next_attempt(tmp_path: Path, number: signal.Signals) -> None:
    write_experiment(tmp_path, agent="raise SystemExit(75)")
    words = [LAB, "set", "experiment.yaml", "--retry-wait", "600"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr
    wait_for(lambda: "trying again in" in said.readline())

    process.send_signal(number)
    out, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert out.startswith("error: ")


FLAKY_ONCE = (
    """
import os, pathlib
mark = pathlib.Path(os.environ["MARKS"], os.environ["AGENTLAB_TASK_ID"])
if os.environ["AGENTLAB_TASK_ID"] == "t2" and not mark.exists():
    mark.touch()
    raise SystemExit(75)
"""
    + AGENT_SHOUTS
)


def test_good_results_of_a_directory_are_reused(tmp_path: Path) -> None:
    flaky(tmp_path, bad="t2")
    (tmp_path / "starts").write_text("")
    (tmp_path / "bad").write_text("")
    record = json.loads((tmp_path / ".lab/runs/first/run.json").read_text())
    names = [
        word for name, value in record["overrides"]["env"].items() for word in ("--env", f"{name}={value}")
    ]

    reused = lab("run", "--run-id", "second", "--reuse", ".lab/runs", *names, cwd=tmp_path)
    nothing = lab("run", "--run-id", "third", "--reuse", "nowhere", "--limit", "1", *names, cwd=tmp_path)

    assert reused.code == 0, reused.err
    assert "4 trials taken over, 1 to run" in reused.err
    assert starts(tmp_path) == ["t2", "t0"]
    assert nothing.code == 0
