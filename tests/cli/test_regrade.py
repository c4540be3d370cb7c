from pathlib import Path

import pytest

from tests.cli.calling import AGENT, GRADER, lab, write_experiment
from tests.cli.test_run import KINDS


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
    write_experiment(tmp_path, agent=outage + AGENT)
    (tmp_path / "outage").touch()
    given = ("--env", f"OUTAGE={tmp_path / 'outage'}", "--log-dir", ".lab/runs")
    failed = lab("run", "--run-id", "x", *given, cwd=tmp_path)
    regraded = lab("regrade", "x", "--run-id", "y", cwd=tmp_path)
    (tmp_path / "outage").unlink()

    done = lab("set", "experiment.yaml", *given, cwd=tmp_path)

    assert (failed.code, regraded.code, done.code) == (1, 0, 0)
    assert "success: all 3 trials finished" in done.out
