from pathlib import Path

import pytest

from tests.kit.cli.calling import AGENT_SHOUTS, GRADER, lab, write_experiment
from tests.kit.sandbox.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_kept_workspaces_are_graded_again_by_another_grader(tmp_path: Path, kind: str) -> None:
    write_experiment(tmp_path, sandbox=kind)
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)
    (tmp_path / "lenient").mkdir()
    (tmp_path / "lenient" / "grade.py").write_text(GRADER.replace("answer == target", "True"))
    (tmp_path / "agent" / "agent.py").write_text("raise SystemExit('no agent may run')")

    done = lab("regrade", "x", "--grader", "lenient", "--run-id", "y", cwd=tmp_path)

    assert done.code == 0, done.err
    assert "adopted" not in done.out
    totals = {run: lab("show", run, "--json", cwd=tmp_path).json()["summary"]["totals"] for run in ("x", "y")}
    assert (totals["x"]["pass"], totals["y"]["pass"]) == (2, 3)
    assert lab("verify", "y", cwd=tmp_path).code == 0


def test_a_trial_whose_workspace_is_gone_is_missing_data(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", cwd=tmp_path)

    done = lab("regrade", "x", "--run-id", "y", cwd=tmp_path)

    assert "2 trials without a kept workspace" in done.err
    totals = lab("show", "y", "--json", cwd=tmp_path).json()["summary"]["totals"]
    assert (totals["fail"], totals["error"]) == (1, 2)


def test_verdicts_that_differ_from_time_to_time_are_named(tmp_path: Path) -> None:
    moody = GRADER.replace(
        "answer == target", '(int(os.environ["AGENTLAB_REPL_IDX"]) % 3 < 2) or "0" in answer'
    )
    write_experiment(tmp_path, grader=moody)
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)

    done = lab("regrade", "x", "--times", "3", "--run-id", "y", cwd=tmp_path)

    assert "2 trials judged differently in 3 gradings" in done.err
    assert "t0.baseline.0" not in done.err.split("gradings")[1]


def test_nothing_kept_is_told(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", "--keep-workspace", "never", cwd=tmp_path)

    refused = lab("regrade", "x", cwd=tmp_path)

    assert refused.code == 2
    assert "no workspace was kept" in refused.err


def test_no_other_run_takes_over_what_was_judged_several_times(tmp_path: Path) -> None:
    write_experiment(tmp_path, extra="replications: 2\n")
    lab("run", "--run-id", "x", "--keep-workspace", "always", "--task-id", "t0", cwd=tmp_path)
    lab("regrade", "x", "--times", "2", "--run-id", "y", cwd=tmp_path)
    (tmp_path / ".lab/runs/x").rename(tmp_path / "x")

    reusing = lab("run", "--reuse", ".lab/runs", "--run-id", "z", "--task-id", "t0", cwd=tmp_path)
    retried = lab("retry", "y", cwd=tmp_path)

    assert "0 trials taken over, 2 to run" in reusing.err
    assert retried.code == 2
    assert f"lab retry {tmp_path / '.lab/runs/x'}" in retried.err


def test_a_set_is_not_done_because_a_regrading_of_it_is(tmp_path: Path) -> None:
    outage = "import os\nif os.path.exists(os.environ['OUTAGE']): raise SystemExit(75)\n"
    write_experiment(tmp_path, agent=outage + AGENT_SHOUTS)
    (tmp_path / "outage").touch()
    given = ("--env", f"OUTAGE={tmp_path / 'outage'}", "--log-dir", ".lab/runs")
    failed = lab("run", "--run-id", "x", *given, cwd=tmp_path)
    regraded = lab("regrade", "x", "--run-id", "y", cwd=tmp_path)
    (tmp_path / "outage").unlink()

    done = lab("set", "experiment.yaml", *given, cwd=tmp_path)

    assert (failed.code, regraded.code, done.code) == (1, 1, 0)  # there was nothing to judge
    assert "success: all 3 trials finished" in done.out


HOSTILE = (
    AGENT_SHOUTS
    + """
import socket
if os.environ["AGENTLAB_TASK_ID"] == "t1":
    os.chdir(os.environ["AGENTLAB_WORKSPACE"])
    os.mkfifo("pipe")
    socket.socket(socket.AF_UNIX).bind("socket")
    with open("sparse", "wb") as file:
        file.truncate(5 << 30)
    for _ in range(25):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    pathlib.Path("deepest").write_text("here")
"""
)


@pytest.mark.parametrize("kind", KINDS)
def test_one_agents_workspace_breaks_no_command_whatever_it_holds(tmp_path: Path, kind: str) -> None:
    write_experiment(tmp_path, sandbox=kind, agent=HOSTILE)
    ran = lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)

    done = lab("regrade", "x", "--run-id", "y", cwd=tmp_path)

    assert (ran.code, done.code) == (0, 0), done.err
    totals = {run: lab("show", run, "--json", cwd=tmp_path).json()["summary"]["totals"] for run in ("x", "y")}
    assert totals["x"] == totals["y"]
    (copied,) = tmp_path.glob(".lab/runs/y/trials/t1*/1/workspace/sparse")
    assert copied.stat().st_size == 5 << 30
    assert copied.stat().st_blocks < 1000
    (tmp_path / "tasks.jsonl").write_text(
        (tmp_path / "tasks.jsonl").read_text() + '{"id": "t3", "input": "a"}\n'
    )
    retried = lab("retry", "x", "--run-id", "z", cwd=tmp_path)
    assert "3 trials taken over, 1 to run" in retried.err
    for run in ("x", "y", "z"):
        assert lab("verify", run, cwd=tmp_path).code == 0
    cleaned = lab("clean", "--workspaces", "--yes", cwd=tmp_path)
    assert cleaned.code == 0, cleaned.err
    assert not list(tmp_path.glob(".lab/runs/*/trials/*/1/workspace"))


def test_a_workspace_that_a_power_cut_emptied_is_missing_data_and_never_a_fail(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)
    (hurt,) = tmp_path.glob(".lab/runs/x/trials/t1*/1/workspace/answer.txt")
    hurt.write_text("")

    lab("regrade", "x", "--run-id", "y", cwd=tmp_path)

    totals = lab("show", "y", "--json", cwd=tmp_path).json()["summary"]["totals"]
    assert (totals["pass"], totals["fail"], totals["error"]) == (1, 1, 1)
    shown = lab("show", "y", "t1.baseline.0", cwd=tmp_path)
    assert "does not hold what was kept" in shown.out


def test_graders_of_a_masked_workspace_are_told_apart(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent=AGENT_SHOUTS + 'pathlib.Path("key").write_text(os.environ["KEY"])\n')
    text = (tmp_path / "experiment.yaml").read_text().replace("dir: agent,", "dir: agent, secrets: [KEY],")
    (tmp_path / "experiment.yaml").write_text(text)
    env = {"KEY": "sk-live-0123456789"}
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path, env=env)

    done = lab("regrade", "x", "--run-id", "y", cwd=tmp_path, env=env)

    assert "3 workspaces graded without the secrets that were masked there" in done.err


def outcomes(folder: Path, run: str) -> dict[str, str]:
    query = "select task_id || '/' || variant_id as t, coalesce(verdict, reason) as v from trials"
    return {row["t"]: row["v"] for row in lab("query", run, query, "--format", "json", cwd=folder).json()}


def test_only_what_is_asked_for_is_graded_again(tmp_path: Path) -> None:
    write_experiment(tmp_path, extra="variants: [{id: a}, {id: b}]\n")
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)

    lab("regrade", "x", "--run-id", "y", "--task-id", "t[12]", "--variant", "b", cwd=tmp_path)
    assert outcomes(tmp_path, "y") == {"t1/b": "pass", "t2/b": "pass"}

    lab("regrade", "x", "--run-id", "z", "--trial", "t0.a.0", "--trial", "t1.b.*", cwd=tmp_path)
    assert outcomes(tmp_path, "z") == {
        "t0/a": "fail",
        "t0/b": "not_chosen",
        "t1/a": "not_chosen",
        "t1/b": "pass",
    }


@pytest.mark.parametrize("words", [("--task-id", "no*"), ("--variant", "no"), ("--trial", "no-such")])
def test_a_choice_that_fits_nothing_is_bad_input(tmp_path: Path, words: tuple[str, str]) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)
    answer = lab("regrade", "x", *words, cwd=tmp_path)
    assert answer.code == 2
    assert words[0] in answer.err


def test_a_regrading_without_a_single_verdict_is_no_success(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=2)
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "grade.py").write_text("raise SystemExit(3)")

    done = lab("regrade", "x", "--grader", "broken", "--run-id", "y", cwd=tmp_path)

    assert done.code == 1, done
    assert lab("show", "y", "--json", cwd=tmp_path).json()["state"] == "error"
