"""Results of code that was edited since: not taken over, unless somebody vouches for the edit."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from labrunner.evaluation.evaluate import eval_retry, eval_set
from tests.kit.cli.calling import lab, write_experiment
from tests.kit.solve.authoring import run, write_task

TASK = """
import {name}

@task
def letters():
    return Task(
        dataset=[Sample(input=c, target=c) for c in "abc"],
        solver=[{name}.shout(), generate()],
        scorer=includes(),
    )
"""
MODULE = """
from labrunner.solver import solver

@solver
def shout():
    async def solve(state, generate):
        return state
    return solve
"""
MODEL = ("--model", "mock/echo")


def write_python(folder: Path, name: str = "helping") -> Path:
    (folder / f"{name}.py").write_text(MODULE)
    return write_task(folder, TASK.format(name=name), "ctf.py")


def edit(path: Path) -> None:
    path.write_text(path.read_text() + "\nMORE = 1\n")


def record(folder: Path, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / ".lab/runs" / run / "run.json").read_text())
    return found


def test_an_edited_module_is_named_and_its_results_are_not_taken_over(tmp_path: Path) -> None:
    write_python(tmp_path)
    assert lab("run", "ctf.py", *MODEL, "--run-id", "first", cwd=tmp_path).code == 0
    edit(tmp_path / "helping.py")

    told = lab("retry", "first", "--dry-run", cwd=tmp_path).err

    assert "0 trials taken over, 3 to run" in told
    assert "since then: module helping changed for variants: mock/echo" in told


def test_a_comment_costs_nothing(tmp_path: Path) -> None:
    file = write_python(tmp_path)
    assert lab("run", "ctf.py", *MODEL, "--run-id", "first", cwd=tmp_path).code == 0
    file.write_text("# a remark\n" + file.read_text())
    (tmp_path / "helping.py").write_text("# another\n" + MODULE)

    assert "3 trials taken over, 0 to run" in lab("retry", "first", "--dry-run", cwd=tmp_path).err


def test_a_run_does_not_go_on_with_another_module_and_says_which(tmp_path: Path) -> None:
    write_python(tmp_path)
    killed = {"LAB_DIE_AT": "commit.rows_synced:1"}
    assert lab("run", "ctf.py", *MODEL, "--run-id", "first", cwd=tmp_path, env=killed).code != 0
    edit(tmp_path / "helping.py")

    answer = lab("continue", "first", cwd=tmp_path)

    assert answer.code == 2
    assert "module helping changed" in answer.err


def test_an_edit_that_is_vouched_for_is_taken_over_recorded_and_shown(tmp_path: Path) -> None:
    write_python(tmp_path)
    assert lab("run", "ctf.py", *MODEL, "--run-id", "first", cwd=tmp_path).code == 0
    edit(tmp_path / "helping.py")

    done = lab("retry", "first", "--reuse-edited", "--run-id", "second", cwd=tmp_path)
    shown = lab("show", "second", cwd=tmp_path).out
    trial = lab("show", "second", "0", cwd=tmp_path).out

    assert done.code == 0, done.err
    assert "3 trials taken over, 0 to run" in done.err
    assert "3 taken over from earlier code, as --reuse-edited vouches for it" in done.err
    vouched = record(tmp_path, "second")["vouched"]
    assert vouched["trials"] == 3
    assert vouched["changes"] == ["module helping changed for variants: mock/echo"]
    assert "3 trials made by earlier code, taken over with --reuse-edited" in shown
    assert "an earlier version, taken over with --reuse-edited" in trial
    assert record(tmp_path, "first")["vouched"] is None
    assert lab("verify", "second", cwd=tmp_path).code == 0


def test_what_was_vouched_for_stays_known_when_the_first_run_is_gone(tmp_path: Path) -> None:
    write_python(tmp_path)
    assert lab("run", "ctf.py", *MODEL, "--run-id", "first", cwd=tmp_path).code == 0
    edit(tmp_path / "helping.py")
    assert lab("retry", "first", "--reuse-edited", "--run-id", "second", cwd=tmp_path).code == 0
    shutil.rmtree(tmp_path / ".lab/runs/first")

    plain = lab("retry", "second", "--dry-run", cwd=tmp_path)
    again = lab("retry", "second", "--reuse-edited", "--run-id", "third", cwd=tmp_path)

    assert "0 trials taken over, 3 to run" in plain.err
    assert "3 trials taken over, 0 to run" in again.err
    changes = ["module helping changed for variants: mock/echo"]
    assert record(tmp_path, "third")["vouched"]["changes"] == changes


def test_a_retry_that_was_killed_goes_on_with_what_was_vouched_for(tmp_path: Path) -> None:
    write_python(tmp_path)
    assert lab("run", "ctf.py", *MODEL, "--run-id", "first", cwd=tmp_path).code == 0
    edit(tmp_path / "helping.py")
    killed = {"LAB_DIE_AT": "commit.rows_synced:1"}
    words = ("retry", "first", "--reuse-edited", "--run-id", "second")
    assert lab(*words, cwd=tmp_path, env=killed).code != 0

    assert lab("continue", "second", cwd=tmp_path).code == 0

    summary = lab("show", "second", "--json", cwd=tmp_path).json()["summary"]
    assert [each["kind"] for each in summary["ext"]["warnings"]] == ["edited"]
    assert "3 trials" in summary["ext"]["warnings"][0]["text"]


def test_only_code_can_be_vouched_for(tmp_path: Path) -> None:
    file = write_python(tmp_path)
    assert lab("run", "ctf.py", *MODEL, "--run-id", "first", cwd=tmp_path).code == 0
    file.write_text(file.read_text().replace('"abc"', '"abd"').replace("includes()", "match()"))

    told = lab("retry", "first", "--reuse-edited", "--dry-run", cwd=tmp_path).err

    assert "0 trials taken over, 3 to run" in told
    assert "program.scorers" in told


def test_agents_and_graders_of_experiment_files_can_be_vouched_for(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    assert lab("run", "--run-id", "first", cwd=tmp_path).code == 0
    edit(tmp_path / "agent" / "agent.py")
    edit(tmp_path / "grader" / "grade.py")

    plain = lab("run", "--reuse", ".lab/runs", "--dry-run", cwd=tmp_path)
    planned = lab("plan", "--reuse", ".lab/runs", "--reuse-edited", "--json", cwd=tmp_path).json()
    words = ("run", "--reuse", ".lab/runs", "--reuse-edited", "--run-id", "second")
    done = lab(*words, cwd=tmp_path)

    assert "0 trials taken over, 3 to run" in plain.out
    assert "agent.dir changed for variants: baseline" in plain.out
    assert (planned["reuse"]["taken_over"], planned["reuse"]["vouched"]["trials"]) == (3, 3)
    assert "3 trials taken over, 0 to run" in done.err
    told = record(tmp_path, "second")["vouched"]["changes"]
    assert told == [
        "grader.dir changed for tasks: t0, t1, t2",
        "agent.dir changed for variants: baseline",
    ]


def test_vouching_without_runs_to_take_from_is_refused(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    answer = lab("run", "--reuse-edited", cwd=tmp_path)
    assert answer.code == 2
    assert "--reuse DIR" in answer.err


def test_sets_take_edited_results_over_only_when_asked(tmp_path: Path) -> None:
    write_python(tmp_path)
    assert lab("set", "ctf.py", *MODEL, cwd=tmp_path).code == 0
    edit(tmp_path / "helping.py")

    done = lab("set", "ctf.py", *MODEL, "--reuse-edited", cwd=tmp_path)

    assert done.code == 0
    assert "3 trials taken over, 0 to run" in done.err
    assert "module helping changed" in done.err


def test_python_calls_take_the_same_option(tmp_path: Path) -> None:
    file = write_python(tmp_path, "vouched_module")
    log = run(str(file), tmp_path)
    edit(file)

    taken = eval_retry(log, display=False, reuse_edited=True)[0]
    fine, _ = eval_set(
        str(file), tmp_path / "set", "mock/echo", display=False, reuse_edited=True, retry_wait=0
    )
    reused = run(str(file), tmp_path, reuse=tmp_path / "runs", reuse_edited=True)

    for each in (taken, reused):
        kept = json.loads((Path(os.fspath(each.location)) / "run.json").read_text())
        assert kept["vouched"]["trials"] == 3
    assert fine
