import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import AGENT_SHOUTS, LAB, environment, lab, write_experiment
from tests.kit.made_runs import edit_status
from tests.kit.waiting import wait_for

DAY = 24 * 3600


def age(root: Path, days: float) -> None:
    """Make a run look as if its owner had ended days ago."""
    then = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - days * DAY))
    ended = json.loads((root / "status.json").read_text())["ended_at"]
    edit_status(RunPaths(root), updated_at=then, ended_at=then if ended else None)
    for path in root.glob("buffer.sqlite*"):
        os.utime(path, (time.time() - days * DAY,) * 2)


@pytest.mark.parametrize(("days", "is_there"), [(2.9, True), (3.1, False)])
def test_a_spent_buffer_goes_three_days_after_the_end_with_the_next_run(
    tmp_path: Path, days: float, is_there: bool
) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "old", cwd=tmp_path)
    age(tmp_path / ".lab/runs/old", days)

    lab("run", "--run-id", "new", cwd=tmp_path)

    assert (tmp_path / ".lab/runs/old/buffer.sqlite").exists() is is_there
    assert lab("verify", "old", cwd=tmp_path).code == 0
    assert lab("show", "old", cwd=tmp_path).code == 0


def test_paid_work_is_never_thrown_away_by_a_timer(crashed: Path) -> None:
    age(crashed / ".lab/runs/x", 30)

    lab("run", "--run-id", "new", "--task-id", "t0", cwd=crashed)
    cleaned = lab("clean", "--yes", cwd=crashed)

    assert "nothing to clean" in cleaned.out
    planned = lab("retry", "x", "--dry-run", cwd=crashed)
    assert "3 trials taken over, 1 to run" in planned.err


def test_only_abandoning_gives_paid_work_up_and_it_says_how_much(crashed: Path) -> None:
    told = lab("clean", "--abandon", "x", "--list", cwd=crashed)
    done = lab("clean", "--abandon", "x", "--yes", cwd=crashed)

    assert "2 finished results not committed" in told.out
    assert "gave up 2 finished results" in done.out
    assert "1 of 4 trials finished" in lab("show", "x", cwd=crashed).out
    planned = lab("retry", "x", "--dry-run", cwd=crashed)
    assert "1 trial taken over, 3 to run" in planned.err


def test_what_a_stopped_run_gave_up_is_not_shown_any_more(tmp_path: Path) -> None:
    slow = 'import os, time\nif os.environ["AGENTLAB_TASK_ID"] == "t0": time.sleep(600)\n' + AGENT_SHOUTS
    write_experiment(tmp_path, agent=slow, extra="max_concurrency: 2\n")
    words = [LAB, "run", "--run-id", "x", "--grace", "0"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    status = tmp_path / ".lab/runs/x/status.json"
    wait_for(lambda: status.exists() and json.loads(status.read_text())["counts"]["buffered"] == 2)
    process.terminate()
    assert process.wait(60) == 130
    assert "2 of 3 trials finished" in lab("show", "x", cwd=tmp_path).out

    lab("clean", "--abandon", "x", "--yes", cwd=tmp_path)

    assert "cancelled: 0 of 3 trials finished" in lab("show", "x", cwd=tmp_path).out
    counts = lab("log", "list", "--json", cwd=tmp_path).json()[0]["counts"]
    assert (counts["buffered"], counts["passed"]) == (0, 0)


def test_kept_workspaces_are_removed_when_asked(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)

    listed = lab("clean", "--workspaces", "--list", cwd=tmp_path)
    kept = list(tmp_path.glob(".lab/runs/x/trials/*/1/workspace"))
    done = lab("clean", "--workspaces", "--yes", cwd=tmp_path)

    assert "3 x workspace" in listed.out
    assert len(kept) == 3
    assert done.code == 0
    assert not list(tmp_path.glob(".lab/runs/x/trials/*/1/workspace"))
    assert lab("verify", "x", cwd=tmp_path).code == 0


def test_invalidated_trials_are_left_out_and_run_again(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", cwd=tmp_path)

    only_told = lab(
        "invalidate", "x", "--where", "task_id = 't1'", "--reason", "bad", "--dry-run", cwd=tmp_path
    )
    before = lab("show", "x", "--json", cwd=tmp_path).json()["summary"]["totals"]
    done = lab("invalidate", "x", "--where", "task_id = 't1'", "--reason", "wrong image", cwd=tmp_path)
    after = lab("show", "x", "--json", cwd=tmp_path).json()["summary"]["totals"]
    planned = lab("retry", "x", "--dry-run", cwd=tmp_path)
    wrong = lab("invalidate", "x", "--where", "no_such = 1", "--reason", "r", cwd=tmp_path)

    assert "1 trial would be marked" in only_told.out
    assert (before["pass"], after["pass"]) == (2, 1)
    assert done.code == 0
    assert "1 invalidated: t1.baseline.0" in planned.err
    assert lab("verify", "x", cwd=tmp_path).code == 0
    assert wrong.code == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from labrunner.files.scraps import LAUNCH, PROBE, scrap_folder
from labrunner.files.draft import draft_beside
runs = Path(sys.argv[1])
report = draft_beside(runs / "report")
with scrap_folder(PROBE, runs) as probe, scrap_folder(LAUNCH) as launch, report as draft:
    (draft / "file").write_text("x")
    print(probe, launch, draft, flush=True)
    sys.stdin.read()
"""


def test_folders_of_killed_commands_are_found_and_those_of_live_ones_left_alone(tmp_path: Path) -> None:
    runs = tmp_path / ".lab/runs"
    runs.mkdir(parents=True)
    (tmp_path / "temporary").mkdir()
    env = environment(TMPDIR=str(tmp_path / "temporary"))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(runs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    folders = [Path(word) for word in process.stdout.readline().decode().split()]
    assert lab("clean", "--yes", cwd=tmp_path, env=env).out == "nothing to clean\n"
    assert all(folder.is_dir() for folder in folders)

    process.kill()
    process.communicate()
    told = lab("clean", "--yes", cwd=tmp_path, env=env)
    for folder in folders:
        assert f"{folder}, of a killed command: 1 x folder" in told.out
        assert not folder.exists()
    assert lab("clean", cwd=tmp_path, env=env).out == "nothing to clean\n"
