import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from labrunner.store.buffering.buffer import read_live
from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import AGENT_SHOUTS, GRADER, LAB, environment, lab, write_experiment
from tests.kit.runner.running import committed_bytes
from tests.kit.sandbox.kinds import KINDS
from tests.kit.waiting import wait_for


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_to_the_bytes_of_an_undisturbed_one(tmp_path: Path, kind: str) -> None:
    agent = (
        'import os, time\ntime.sleep(0.3 if os.environ["AGENTLAB_TASK_ID"] == "t1" else 0)\n' + AGENT_SHOUTS
    )
    write_experiment(tmp_path, sandbox=kind, tasks=6, agent=agent, extra="max_concurrency: 3\n")
    words = ("run", "--run-id", "same", "--log-dir")
    assert lab(*words, "undisturbed", cwd=tmp_path).code == 0
    process = subprocess.Popen(
        [LAB, *words, "killed"], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
    )
    commits = tmp_path / "killed/same/commits.jsonl"
    wait_for(lambda: commits.exists() and commits.stat().st_size > 0)
    process.kill()
    process.wait()

    going_on = lab("continue", "--log-dir", "killed", cwd=tmp_path)

    assert going_on.code == 0, going_on.err
    assert committed_bytes(tmp_path / "killed/same") == committed_bytes(tmp_path / "undisturbed/same")
    assert (tmp_path / "killed/same/crash-1.json").exists()
    assert lab("verify", "same", "--log-dir", "killed", cwd=tmp_path).code == 0


def test_a_finished_run_has_nothing_to_continue(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", cwd=tmp_path)

    assert lab("continue", cwd=tmp_path).code == 0
    assert "nothing to do" in lab("continue", "last", cwd=tmp_path).out


def test_a_changed_experiment_is_refused_and_what_changed_is_named(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent="raise SystemExit(75)")
    assert lab("run", cwd=tmp_path).code == 1
    (tmp_path / "agent" / "agent.py").write_text(AGENT_SHOUTS)

    refused = lab("continue", cwd=tmp_path)

    assert refused.code == 2
    assert "agent.dir" in refused.err
    assert "lab retry" in refused.err


def test_a_refusal_suggests_a_command_that_finds_the_run_from_here(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent="raise SystemExit(75)")
    assert lab("run", "--run-id", "x", "--log-dir", "logs", cwd=tmp_path).code == 1

    over = lab("continue", "--log-dir", "logs", cwd=tmp_path)
    (tmp_path / "agent" / "agent.py").write_text(AGENT_SHOUTS)
    changed = lab("continue", "--log-dir", "logs", cwd=tmp_path)

    assert over.err.endswith("anew: lab retry logs/x\n")
    assert changed.err.endswith("anew with: lab retry logs/x\n")
    assert lab("retry", "logs/x", "--dry-run", cwd=tmp_path).code == 0


def test_after_a_tripped_threshold_a_new_one_is_needed(tmp_path: Path) -> None:
    agent = 'import os\nif os.environ["AGENTLAB_TASK_ID"] == "t1": raise SystemExit(75)\n' + AGENT_SHOUTS
    write_experiment(tmp_path, agent=agent)
    assert lab("run", "--run-id", "x", "--max-concurrency", "1", cwd=tmp_path).code == 1

    refused = lab("continue", cwd=tmp_path)
    going_on = lab("continue", "--fail-on-error=1", cwd=tmp_path)

    assert refused.code == 2
    assert "x: trials with errors: 1, more than fail_on_error tolerates, and committed errors" in refused.err
    assert "lab retry" in refused.err
    assert going_on.code == 0, going_on.err
    totals = lab("show", "last", "--json", cwd=tmp_path).json()["summary"]["totals"]
    assert (totals["trials"], totals["error"]) == (3, 1)


def test_without_a_name_neither_reports_nor_runs_that_were_retried_are_continued(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent=FAILS_UNLESS_TOLD)
    assert lab("run", "--run-id", "mine", cwd=tmp_path).code == 1
    assert lab("run", "--run-id", "other", "--no-fail-on-error", cwd=tmp_path).code == 0
    assert lab("log", "recover", "mine", cwd=tmp_path).code == 0

    refused = lab("continue", cwd=tmp_path)
    retried = lab("retry", "mine", "--env", "WELL=1", cwd=tmp_path)
    nothing = lab("continue", cwd=tmp_path)

    assert "more than fail_on_error tolerates" in refused.err
    assert retried.code == 0, retried.err
    assert (nothing.code, nothing.out) == (0, "nothing to continue in .lab/runs\n")


FAILS_UNLESS_TOLD = 'import os\nif "WELL" not in os.environ: raise SystemExit(75)\n' + AGENT_SHOUTS


def test_of_all_runs_one_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent=FAILS_UNLESS_TOLD)
    died = {"LAB_DIE_AT": "create.done:1"}
    lab("run", "--run-id", "older", "--env", "WELL=1", cwd=tmp_path, env=died)
    assert lab("run", "--run-id", "newer", cwd=tmp_path).code == 1

    both = lab("continue", "--all", cwd=tmp_path)

    assert both.code == 2
    assert "more than fail_on_error tolerates" in both.err
    assert lab("show", "older", "--json", cwd=tmp_path).json()["state"] == "success"
    assert lab("continue", "older", "--all", cwd=tmp_path).code == 2


def test_a_live_run_is_not_taken_over(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent="import time; time.sleep(600)")
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "busy"], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
    )
    status = tmp_path / ".lab/runs/busy/status.json"
    wait_for(status.exists)
    try:
        refused = lab("continue", "busy", cwd=tmp_path)
        (tmp_path / "experiment.yaml").unlink()
        refused_first = lab("continue", "busy", cwd=tmp_path)
    finally:
        process.kill()
        process.wait()

    assert refused.code == 2
    assert str(process.pid) in refused.err
    assert refused_first.err == refused.err  # before the experiment is even looked at


def test_attempts_that_failed_before_a_crash_stay_in_the_trials_history(tmp_path: Path) -> None:
    agent = """
import os, pathlib, time
if os.environ["AGENTLAB_ATTEMPT"] == "1":
    raise SystemExit(3)
if not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(600)
"""
    write_experiment(tmp_path, agent=agent + AGENT_SHOUTS, tasks=1, extra="retry_on_error: 2\n")
    words = ("--set", "agent.error_exit_codes={3: setup}", "--env", f"GO={tmp_path / 'go'}")
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "x", *words], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
    )
    wait_for(lambda: bool(list(tmp_path.glob(".lab/runs/x/trials/*/2/workspace"))))
    process.kill()
    process.wait()
    (tmp_path / "go").touch()

    going_on = lab("continue", cwd=tmp_path)

    assert going_on.code == 0, going_on.err
    trial = lab("show", "x", "0", "--json", cwd=tmp_path).json()
    assert [(each["attempt"], each["outcome"]) for each in trial["trial"]["attempts"]] == [
        (1, "failed"),
        (2, "graded"),
    ]
    assert sorted(path.name for path in next(tmp_path.glob(".lab/runs/x/trials/*")).iterdir()) == [
        "1",
        "2",
        "2.cut-1",
    ]
    assert trial["timing"]["cut_off"] == ["2.cut-1"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("repeatable", "starts"), [("true", 1), ("false", 2)])
def test_an_agent_that_had_ended_is_not_run_twice_where_its_grader_may_repeat(
    tmp_path: Path, kind: str, repeatable: str, starts: int
) -> None:
    agent = 'import os, pathlib\nprint("started")\n' + AGENT_SHOUTS
    grader = 'import os, time\nif not os.path.exists(os.environ["GO"]):\n    time.sleep(600)\n'
    folder = write_experiment(tmp_path, sandbox=kind, agent=agent, tasks=1)
    shared = Path("/usr/local/share") if kind == "bubblewrap" else tmp_path
    go = shared / f"lab-go-{os.getpid()}-{repeatable}"
    (folder / "grader" / "grade.py").write_text(grader + GRADER)
    words = ("--set", f"grader.repeatable={repeatable}", "--set", f"grader.env={{GO: {go}}}")
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "x", *words], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
    )
    buffer = tmp_path / ".lab/runs/x/buffer.sqlite"
    wait_for(lambda: buffer.exists() and [note.state for note in read_live(buffer)[0]] == ["grading"])
    process.kill()
    process.wait()
    try:
        go.touch()
        going_on = lab("continue", cwd=tmp_path)
    finally:
        go.unlink(missing_ok=True)

    assert going_on.code == 0, going_on.err
    folders = sorted(path.name for path in next(tmp_path.glob(".lab/runs/x/trials/*")).iterdir())
    assert len(folders) == starts
    trial = lab("show", "x", "0", "--json", cwd=tmp_path).json()
    assert trial["timing"]["attempts"][0].get("adopted", False) is (starts == 1)
    assert trial["trial"]["outcome"] == "graded"


def test_a_damaged_note_of_a_failed_attempt_is_told_with_the_way_out(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", cwd=tmp_path, env={"LAB_DIE_AT": "create.done:1"})
    paths = RunPaths(tmp_path / ".lab/runs/x")
    trial_id = json.loads(paths.schedule.read_text().splitlines()[0])["trial_id"]
    buffer = sqlite3.connect(paths.buffer)
    with buffer:
        buffer.execute("INSERT INTO attempts VALUES ('x', 0, ?, 1, 'failed', ?, 0)", (trial_id, b"{"))
    buffer.close()

    refused = lab("continue", "x", cwd=tmp_path)

    assert "Traceback" not in refused.err
    assert f"reading how attempt 1 of {trial_id} failed, from the buffer" in refused.err
    assert lab("retry", "x", cwd=tmp_path).code == 0
