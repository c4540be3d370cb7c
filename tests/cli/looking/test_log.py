import os
import re
from datetime import datetime
from pathlib import Path

import pytest

from labrunner.records.run import Counts
from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import lab, write_experiment
from tests.kit.cli.crashed import SLOW_FIRST
from tests.kit.made_runs import edit_status


def test_a_crashed_run_is_recovered_whole_without_touching_it(crashed: Path) -> None:
    root = crashed / ".lab/runs/x"
    before = {path: path.read_bytes() for path in root.glob("*.json*")}

    listed = lab("log", "recover", "--list", "--json", cwd=crashed).json()
    done = lab("log", "recover", "x", cwd=crashed)
    again = lab("log", "recover", "x", cwd=crashed)

    assert [run["run_id"] for run in listed] == ["x"]
    assert done.out.splitlines() == [
        "Recovered 3 trials to .lab/runs/x-recovered",
        "1 trial failed or never finished; nothing was run",
        "  to go on with the run itself, in place: lab continue x",
        "  to run them in a new run, from this report: lab retry .lab/runs/x-recovered",
    ]
    assert before == {path: path.read_bytes() for path in root.glob("*.json*")}
    assert again.code == 2
    assert "x-recovered: exists already" in again.err
    assert "--output" in again.err
    shown = lab("show", "x-recovered", "--json", cwd=crashed).json()
    assert shown["state"] == "error"
    assert shown["summary"]["totals"]["trials"] == 3
    assert lab("verify", "x-recovered", cwd=crashed).code == 0
    assert "never finished" in lab("show", "x-recovered", "t1", cwd=crashed).out


def test_a_crashed_runs_means_are_not_taken_from_what_it_said_before(crashed: Path) -> None:
    (listed,) = lab("log", "list", "--json", cwd=crashed).json()
    assert (listed["state"], listed["means"]) == ("crashed", {})


def test_a_report_is_retried_not_continued(crashed: Path) -> None:
    lab("log", "recover", "x", cwd=crashed)
    (crashed / "agent" / "agent.py").write_text(SLOW_FIRST)

    last = lab("show", "last", cwd=crashed).out
    shown = " ".join(lab("show", "x-recovered", cwd=crashed).out.split())
    continued = lab("continue", "x-recovered", cwd=crashed)
    planned = lab("retry", ".lab/runs/x-recovered", "--dry-run", cwd=crashed)

    assert continued.code == 2
    assert "can't be continued" in continued.err
    assert last.startswith("crashed:")
    assert (
        "a report of x, which can't be continued; to go on with the run itself, in place: lab continue x; "
        in shown
    )
    assert "stopped or crashed: `lab continue`" not in shown
    assert "3 trials taken over, 1 to run" in planned.err


def test_a_report_can_take_the_place_of_its_run_or_go_elsewhere(crashed: Path) -> None:
    elsewhere = lab("log", "recover", "x", "--output", "post/mortem", cwd=crashed)
    in_place = lab("log", "recover", "x", "--overwrite", cwd=crashed)

    assert elsewhere.code == 0, elsewhere.err
    assert lab("verify", "post/mortem", cwd=crashed).code == 0
    assert in_place.code == 0, in_place.err
    assert sorted(path.name for path in (crashed / ".lab/runs").iterdir()) == ["x"]
    assert lab("show", "x", "--json", cwd=crashed).json()["state"] == "error"
    assert lab("verify", "x", cwd=crashed).code == 0
    assert lab("continue", "x", cwd=crashed).code == 2


@pytest.mark.parametrize("how", ["--overwrite", "--output=x-report"])
def test_a_report_keeps_the_marks_on_trials_that_are_not_to_be_used(crashed: Path, how: str) -> None:
    lab("invalidate", "x", "--where", "task_id = 't0'", "--reason", "leaked", cwd=crashed)
    done = lab("log", "recover", "x", how, cwd=crashed)
    report = ".lab/runs/x" if how == "--overwrite" else "x-report"

    shown = lab("show", report, "--json", cwd=crashed).json()
    planned = lab("retry", report, "--dry-run", cwd=crashed)

    assert done.code == 0, done.err
    assert shown["summary"]["totals"]["trials"] == 2
    assert "2 trials taken over, 2 to run" in planned.err


def test_showing_a_crashed_run_says_what_was_lost_and_what_to_type(crashed: Path) -> None:
    shown = lab("show", "x", cwd=crashed)

    assert "crashed" in shown.out
    assert "1 committed, 2 finished behind a gap" in shown.out
    assert re.search(r"in flight +t1\.baseline\.0-\w+ \(its agent had not ended\)", shown.out)
    assert "the machine was not restarted since" in shown.out
    assert re.search(r"to go on +lab continue x\n", shown.out)


def test_every_view_of_a_crash_names_the_same_last_sign_of_life(crashed: Path) -> None:
    later = datetime.fromisoformat(lab("show", "x", "--json", cwd=crashed).json()["status"]["updated_at"])
    os.utime(crashed / ".lab/runs/x/commits.jsonl", times=(later.timestamp() + 60,) * 2)

    shown = lab("show", "x", cwd=crashed).out
    crash = lab("show", "x", "--json", cwd=crashed).json()["crash"]
    lab("log", "recover", "x", cwd=crashed)
    report = lab("show", "x-recovered", "--json", cwd=crashed).json()

    sign = crash["last_sign_at"]
    assert datetime.fromisoformat(sign) > later
    assert f"the last sign of life was at {sign}\n" in shown
    assert f"last sign of life  {sign};" in shown
    assert report["status"]["error"]["message"] == f"recovered from x, last sign of life {sign}"
    assert (crash["committed"], crash["buffered"], crash["owed"]) == (1, 2, 1)
    assert [each["state"] for each in crash["in_flight"]] == ["dispatched"]


def test_a_crashed_run_is_listed_with_what_it_finished_not_with_what_it_last_said(crashed: Path) -> None:
    nothing = Counts(planned=4, committed=0, buffered=0, running=2, passed=0, failed=0, errors=0)
    edit_status(RunPaths(crashed / ".lab/runs/x"), counts=nothing)

    listed = lab("log", "list", "--json", cwd=crashed).json()
    recoverable = lab("log", "recover", "--list", "--json", cwd=crashed).json()

    for (run,) in (listed, recoverable):
        counts = run["counts"]
        assert (counts["committed"], counts["buffered"], counts["running"]) == (1, 2, 0)
        assert (counts["passed"], counts["failed"], counts["errors"]) == (2, 1, 0)


def test_a_report_is_listed_with_what_was_finished(crashed: Path) -> None:
    lab("log", "recover", "x", cwd=crashed)

    listed = lab("log", "list", cwd=crashed)

    assert re.search(r"x-recovered .* error +3/4 +2 +1 +0 ", listed.out)


def test_a_run_that_died_before_its_first_status_is_shown_and_continued(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", cwd=tmp_path, env={"LAB_DIE_AT": "create.done:1"})

    shown = lab("show", "x", cwd=tmp_path)

    assert shown.code == 0, shown.err
    assert "crashed: 0 of 3 trials finished" in shown.out
    assert re.search(r"owed +3 trials\n", shown.out)
    assert lab("continue", cwd=tmp_path).code == 0


def test_what_to_type_after_a_recovery_can_be_typed(crashed: Path) -> None:
    told = lab("log", "recover", "x", "--output", "a place", cwd=crashed).out
    assert told.endswith(": lab retry 'a place'\n")


def test_results_whose_times_are_lost_are_recovered_shown_exported_and_retried(tmp_path: Path) -> None:
    write_experiment(tmp_path, extra="budget: {tokens: 1000000}\n")
    assert lab("run", "--run-id", "x", cwd=tmp_path).code == 0
    RunPaths(tmp_path / ".lab/runs/x").timings.unlink()

    assert lab("log", "recover", "x", cwd=tmp_path).code == 0
    shown = lab("show", "x-recovered", "t0", cwd=tmp_path)
    exported = lab("export", "x-recovered", "--to", "inspect", cwd=tmp_path)
    retried = lab("retry", "x-recovered", "--run-id", "z", cwd=tmp_path)

    assert shown.code == 0, shown.err
    assert exported.code == 0, exported.err
    assert retried.code == 0, retried.err
    assert "3 trials taken over, 0 to run" in retried.err
    assert lab("verify", "z", cwd=tmp_path).code == 0
