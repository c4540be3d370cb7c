"""Whole runs of `oracle` and `noop`: the task's solution, and nothing."""

import json
from pathlib import Path

import pytest

from tests.kit.cli.calling import AGENT_SHOUTS, lab, write_experiment

SANDBOXES = ["process", pytest.param("bubblewrap", marks=pytest.mark.bwrap)]
ROWS = [
    {"id": "t0", "input": "word", "target": "right", "solution": "printf %s right > answer.txt"},
    {"id": "t1", "input": "other", "target": "right", "solution": {"dir": "answer"}},
]
GRADER = """
import json, os, pathlib
target = json.loads(pathlib.Path(os.environ["AGENTLAB_TARGET_PATH"]).read_text())
answer = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt")
verdict = "pass" if answer.exists() and answer.read_text() == target else "fail"
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": verdict}))
"""


def write_solved(folder: Path, sandbox: str = "process") -> Path:
    write_experiment(folder, sandbox=sandbox, tasks=2, agent=AGENT_SHOUTS, grader=GRADER)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "answer").mkdir()
    (folder / "answer" / "word").write_text("right")
    (folder / "answer" / "solve.sh").write_text('cp "$AGENTLAB_AGENT_DIR/word" answer.txt\n')
    return folder


def verdicts(folder: Path) -> dict[str, list[str]]:
    rows = lab(
        "query", "last", "SELECT variant_id, verdict FROM trials ORDER BY 1, 2", "--json", cwd=folder
    ).json()
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["variant_id"], []).append(row["verdict"])
    return found


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_the_oracle_passes_and_a_no_op_fails(tmp_path: Path, sandbox: str) -> None:
    folder = write_solved(tmp_path / "e", sandbox)
    run = lab("run", "--agent", "oracle", "--agent", "noop", cwd=folder)
    assert run.code == 0, run.err
    assert verdicts(folder) == {"noop": ["fail", "fail"], "oracle": ["pass", "pass"]}
    shown = lab("show", "last", cwd=folder)
    assert "did they really run" not in shown.out + shown.err


@pytest.mark.bwrap
def test_a_solutions_folder_is_where_other_peoples_scripts_look_for_it(tmp_path: Path) -> None:
    folder = write_solved(tmp_path / "e", "bubblewrap")
    (folder / "answer" / "solve.sh").write_text("cp /solution/word answer.txt\n")
    run = lab("run", "--agent", "oracle", "--task-id", "t1", cwd=folder)
    assert run.code == 0, run.err
    assert verdicts(folder) == {"oracle": ["pass"]}


def test_only_a_changed_solution_is_carried_out_again(tmp_path: Path) -> None:
    folder = write_solved(tmp_path / "e")
    assert lab("run", "--agent", "oracle", cwd=folder).code == 0
    (folder / "answer" / "word").write_text("wrong")
    again = lab("retry", "last", "--json", cwd=folder)
    assert again.code == 0, again.err
    assert "solution changed for tasks: t1" in again.err
    assert verdicts(folder) == {"oracle": ["fail", "pass"]}
    assert "1 trial taken over, 1 to run" in again.err


def test_the_oracles_kept_work_is_graded_again(tmp_path: Path) -> None:
    folder = write_solved(tmp_path / "e")
    assert lab("run", "--agent", "oracle", "--keep-workspace", "always", cwd=folder).code == 0
    regraded = lab("regrade", "last", cwd=folder)
    assert regraded.code == 0, regraded.err
    assert verdicts(folder) == {"oracle": ["pass", "pass"]}


def test_a_python_task_has_no_agent_to_replace(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "from labrunner import Task, task\nfrom labrunner.dataset import Sample\n"
        "@task\ndef one():\n    return Task(dataset=[Sample(input='x')])\n"
    )
    told = lab("run", "t.py", "--agent", "oracle", cwd=tmp_path)
    assert told.code == 2
    assert "--agent: is for experiment files; a task written in Python has a solver instead" in told.err


def test_a_model_without_an_agent_is_still_for_python_tasks(tmp_path: Path) -> None:
    folder = write_solved(tmp_path / "e")
    told = lab("run", "--model", "openai/x", cwd=folder)
    assert told.code == 2
    assert "told one beside --agent" in told.err
