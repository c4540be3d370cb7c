"""Python tasks from the command line: the real `lab` as a real process."""

import json
import subprocess
import sys
from pathlib import Path

from tests.kit.cli.calling import lab, write_experiment
from tests.kit.solve.authoring import write_task

TASKS = """
import pathlib

@solver
def fragile():
    async def solve(state, generate):
        if (pathlib.Path(__file__).parent / "broken").exists() and state.input_text == "b":
            raise ValueError("broken")
        return await generate(state)
    return solve

@task
def letters(text: str = "abc", extra: list[str] | None = None):
    return Task(
        dataset=[Sample(input=c, target=c) for c in text] + [Sample(input=e, target=e) for e in extra or []],
        solver=fragile(),
        scorer=includes(),
    )

@task
def other():
    return Task(dataset=[Sample(input="x", target="x")], scorer=includes())
"""


def test_a_task_of_a_file_is_run_with_its_arguments(tmp_path: Path) -> None:
    write_task(tmp_path, TASKS, "ctf.py")
    words = (
        "eval",
        "ctf.py@letters",
        "--model",
        "mock/echo",
        "-T",
        "text=hello",
        "-T",
        'extra=["1"]',
        "--json",
    )
    answer = lab(*words, cwd=tmp_path)
    assert answer.code == 0, answer.err
    told = answer.json()
    assert told["status"]["counts"]["passed"] == 6
    assert (tmp_path / ".lab/runs").is_dir()


def test_every_task_of_a_file_is_run(tmp_path: Path) -> None:
    write_task(tmp_path, TASKS, "ctf.py")
    answer = lab("run", "ctf.py", "--model", "mock/echo", "--epochs", "2", cwd=tmp_path)
    assert answer.code == 0, answer.err
    names = sorted(path.name.split("_")[1] for path in (tmp_path / ".lab/runs").iterdir())
    assert names == ["letters", "other"]


def test_an_optional_value_does_not_swallow_the_target(tmp_path: Path) -> None:
    write_task(tmp_path, TASKS, "ctf.py")
    assert lab("eval", "--retry-on-error", "ctf.py@other", "--model", "mock/echo", cwd=tmp_path).code == 0


def test_a_plan_shows_what_would_run_and_runs_nothing(tmp_path: Path) -> None:
    write_task(tmp_path, TASKS, "ctf.py")
    answer = lab("plan", "ctf.py@letters", "--model", "mock/echo", cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert "mock/echo" in answer.out
    assert not (tmp_path / ".lab").exists()


def test_a_failed_run_is_retried_and_a_stopped_one_continued(tmp_path: Path) -> None:
    write_task(tmp_path, TASKS, "ctf.py")
    (tmp_path / "broken").touch()
    words = ("eval", "ctf.py@letters", "--model", "mock/echo", "--run-id", "one", "--max-concurrency", "1")
    answer = lab(*words, cwd=tmp_path)
    assert answer.code == 1
    assert "lab retry" in answer.out
    (tmp_path / "broken").unlink()
    refused = lab("continue", "one", cwd=tmp_path)
    assert refused.code == 2
    assert "fail_on_error" in refused.err
    going_on = lab("continue", "one", "--no-fail-on-error", "--max-connections", "2", cwd=tmp_path)
    assert going_on.code == 0, going_on.err
    again = lab("eval-retry", "one", "--max-connections", "3", cwd=tmp_path)
    assert again.code == 0, again.err
    assert "2 trials taken over, 1 to run" in again.err


def test_a_changed_file_is_named_when_a_run_is_to_go_on(tmp_path: Path) -> None:
    file = write_task(tmp_path, TASKS, "ctf.py")
    (tmp_path / "broken").touch()
    lab("eval", "ctf.py@letters", "--model", "mock/echo", "--run-id", "one", cwd=tmp_path)
    file.write_text(file.read_text() + "\nchanged = True\n")
    answer = lab("continue", "one", cwd=tmp_path)
    assert answer.code == 2
    assert "the task's file changed" in answer.err
    assert "lab retry one" in answer.err


def test_options_for_python_tasks_are_refused_for_experiment_files(tmp_path: Path) -> None:
    write_experiment(tmp_path / "x")
    answer = lab("run", "--model", "mock/echo", cwd=tmp_path / "x")
    assert answer.code == 2
    assert "--model: is for tasks written in Python" in answer.err


def test_mistakes_in_a_task_file_are_told_in_one_sentence(tmp_path: Path) -> None:
    write_task(tmp_path, "1/0\n", "bad.py")
    (tmp_path / "empty.py").write_text("x = 1\n")
    typo = "@task\ndef t():\n    return Task(dataset=[], solver=generate(temprature=1), scorer=includes())\n"
    write_task(tmp_path, typo, "typo.py")
    told = lab("eval", "typo.py", cwd=tmp_path)
    assert f"{tmp_path}/typo.py:9: @task t: generate: there is no setting 'temprature'" in told.err
    assert (told.code, told.err.strip().endswith("timeout (line 11)")) == (2, True)
    assert "ZeroDivisionError: division by zero (line 9)" in lab("eval", "bad.py", cwd=tmp_path).err
    assert "holds no @task function" in lab("eval", "empty.py", cwd=tmp_path).err
    assert "there is no such file" in lab("eval", "nowhere.py", cwd=tmp_path).err
    wrong = lab("eval", "empty.py@x", "-T", "oops", cwd=tmp_path)
    assert (wrong.code, "-T: expected NAME=VALUE" in wrong.err) == (2, True)


def test_limits_and_settings_are_options(tmp_path: Path) -> None:
    write_task(tmp_path, TASKS, "ctf.py")
    words = (
        "eval",
        "ctf.py@other",
        "--model",
        "mock/echo",
        "--token-limit",
        "1",
        "-G",
        "seed=7",
        "--run-id",
        "one",
    )
    assert lab(*words, cwd=tmp_path).code == 0
    program = json.loads((tmp_path / ".lab/runs/one/run.json").read_text())["experiment"]["variants"][0][
        "program"
    ]
    assert (program["limits"], program["config"]) == ({"tokens": 1}, {"seed": 7})
    trial = json.loads((tmp_path / ".lab/runs/one/facts/trials.jsonl").read_text())
    assert trial["ended_by"] == "tokens"


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = "import sys, labrunner; print(sorted(sys.modules)); labrunner.Task"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("'msgspec'", "'pydantic'", "'asyncio'", "'labrunner.solve'", "'numpy'"):
        assert heavy not in loaded


def test_writing_a_task_loads_no_provider() -> None:
    code = (
        "import sys\nfrom labrunner import Task, task\nimport labrunner.solver, labrunner.scorer\n"
        "import labrunner.tool, labrunner.dataset, labrunner.model\nprint(sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("'pydantic_ai'", "'openai'", "'numpy'", "'scipy'", "'rich'", "'typer'"):
        assert heavy not in loaded


def test_what_looks_at_experiments_knows_python_tasks(tmp_path: Path) -> None:
    write_task(tmp_path, TASKS, "ctf.py")
    assert lab("doctor", "ctf.py@other", "--model", "mock/echo", cwd=tmp_path).code == 0
    shown = lab("plan", "ctf.py@letters", "--model", "mock/echo", "--max-connections", "7", cwd=tmp_path).out
    for word in ("@task letters", "fragile", "includes (accuracy, stderr)", "max_connections"):
        assert word in shown
    assert lab("eval", "ctf.py@other", "--model", "mock/echo", "--run-id", "one", cwd=tmp_path).code == 0
    assert "conversation:" in lab("show", "one", "0", cwd=tmp_path).out
    assert "lab retry" in lab("regrade", "one", cwd=tmp_path).err
    assert lab("verify", "one", cwd=tmp_path).code == 0
