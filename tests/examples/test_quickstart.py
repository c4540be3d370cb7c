"""The quickstart's agents and grader, run as the processes that a sandbox would start."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
TASKS = {row["id"]: row for row in map(json.loads, (QUICKSTART / "tasks.jsonl").read_text().splitlines())}
REPLICATIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One task's folders and variables, laid out like a sandbox does."""

    root: Path
    env: dict[str, str]

    @property
    def solution(self) -> Path:
        return self.root / "workspace" / "solution.py"

    def run_agent(self, variant: str) -> dict[str, Any]:
        self._run("agents", variant, "agent.py", "--budget", "40")
        result: dict[str, Any] = json.loads((self.root / "result.json").read_text())
        return result

    def grade(self) -> dict[str, Any]:
        self._run("grader", "grade.py")
        score: dict[str, Any] = json.loads((self.root / "score.json").read_text())
        return score

    def _run(self, *command: str) -> None:
        parts = [part for part in command if not part.startswith("-") and not part.isdigit()]
        argv = [sys.executable, "-I", str(QUICKSTART.joinpath(*parts)), *command[len(parts) :]]
        done = subprocess.run(argv, env=self.env, cwd=self.root / "workspace", capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def make_attempt(tmp_path: Path) -> MakeAttempt:
    def make(task_id: str, repl_idx: int = 0) -> Attempt:
        task, root = TASKS[task_id], tmp_path / f"{task_id}-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(QUICKSTART / task["workspace"], root / "workspace")
        (root / "task.json").write_text(json.dumps({"id": task_id, "input": task["input"]}))
        (root / "target.json").write_text(json.dumps(task["target"]))
        env = {
            "AGENTLAB_RUN_ID": "run",
            "AGENTLAB_TRIAL_ID": "trial",
            "AGENTLAB_VARIANT_ID": "variant",
            "AGENTLAB_TASK_ID": task_id,
            "AGENTLAB_REPL_IDX": str(repl_idx),
            "AGENTLAB_TASK_PATH": str(root / "task.json"),
            "AGENTLAB_WORKSPACE": str(root / "workspace"),
            "AGENTLAB_RESULT_PATH": str(root / "result.json"),
            "AGENTLAB_TARGET_PATH": str(root / "target.json"),
            "AGENTLAB_BENCHMARK_SCORE_PATH": str(root / "score.json"),
            "AGENTLAB_BENCHMARK_PREDICTION_PATH": str(root / "prediction.json"),
        }
        return Attempt(root=root, env=env)

    return make


def count_solved(make_attempt: MakeAttempt, variant: str) -> int:
    solved = 0
    for task_id in TASKS:
        for repl_idx in range(REPLICATIONS):
            attempt = make_attempt(task_id, repl_idx)
            attempt.run_agent(variant)
            solved += attempt.grade()["verdict"] == "pass"
    return solved


def test_v2_solves_clearly_more_than_v1_and_neither_solves_all(make_attempt: MakeAttempt) -> None:
    planned = len(TASKS) * REPLICATIONS
    v1, v2 = count_solved(make_attempt, "v1"), count_solved(make_attempt, "v2")
    assert planned / 3 < v1 < planned * 2 / 3
    assert v1 + planned / 4 < v2 < planned


@pytest.mark.parametrize("variant", ["v1", "v2"])
def test_the_same_trial_does_the_same_twice(make_attempt: MakeAttempt, variant: str) -> None:
    first, second = make_attempt("caesar", 1), make_attempt("caesar", 1)
    assert first.run_agent(variant) == second.run_agent(variant)
    assert first.solution.read_text() == second.solution.read_text()


def test_replications_search_in_another_order(make_attempt: MakeAttempt) -> None:
    tried = {
        make_attempt("is-prime", repl).run_agent("v1")["metrics"]["candidates_tried"] for repl in range(3)
    }
    assert len(tried) > 1


def test_the_agent_reports_who_it_is_and_how_it_ended(make_attempt: MakeAttempt) -> None:
    assert make_attempt("roman", 2).run_agent("v1") == {
        "schema_version": "agent_result_v1",
        "ids": {
            "run_id": "run",
            "trial_id": "trial",
            "variant_id": "variant",
            "task_id": "roman",
            "repl_idx": 2,
        },
        "outcome": "failure",
        "metrics": {"candidates_tried": 19},
    }


@pytest.mark.parametrize("task_id", TASKS)
def test_an_untouched_workspace_fails(make_attempt: MakeAttempt, task_id: str) -> None:
    score = make_attempt(task_id).grade()
    assert (score["verdict"], score["primary_metric_value"]) == ("fail", 0.0)


def test_the_right_fix_passes(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt("gcd")
    attempt.solution.write_text(attempt.solution.read_text().replace("a // b", "a % b"))
    score = attempt.grade()
    assert (score["verdict"], score["primary_metric_value"]) == ("pass", 1.0)
    prediction = json.loads((attempt.root / "prediction.json").read_text())
    assert prediction == {"kind": "text", "value": attempt.solution.read_text()}


def special_case_examples(task_id: str) -> str:
    examples = TASKS[task_id]["input"]["examples"]
    table = {json.dumps(example["args"]): example["expected"] for example in examples}
    return f"import json\nTABLE = {table!r}\ndef gcd(*args):\n    return TABLE.get(json.dumps(list(args)))\n"


CHEATS = {
    "knows only the visible examples": special_case_examples("gcd"),
    "leaves by sys.exit": "import sys\nsys.exit(0)\n",
    "leaves by os._exit": "import os\nos._exit(0)\n",
    "leaves during a call": "import os\ndef gcd(a, b):\n    os._exit(0)\n",
    "prints an answer of its own": "print('[{\"value\": 1}]')\nimport os\nos._exit(0)\n",
    "writes answers past the grader": (
        "import json, os\nos.write(1, json.dumps([{'value': True}] * 99).encode())\nos._exit(0)\n"
    ),
    "never ends": "def gcd(a, b):\n    while True:\n        pass\n",
    "kills the grader": "import os\nos.kill(os.getppid(), 9)\ndef gcd(a, b):\n    return 1\n",
    "starts a process": "import os\nos.system('true')\nimport os\nos._exit(0)\n",
    "returns what equals everything": (
        "class Same(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = None\n"
        "def gcd(a, b):\n    return Same(-1)\n"
    ),
    "is not Python": "pass the tests, please",
    "floods the answer": "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n",
}


@pytest.mark.parametrize("source", CHEATS.values(), ids=CHEATS)
def test_a_cheating_solution_fails(make_attempt: MakeAttempt, source: str) -> None:
    attempt = make_attempt("gcd")
    attempt.solution.write_text(source)
    assert attempt.grade()["verdict"] == "fail"


@pytest.mark.parametrize("opener", ["open(PATH).read()", "os.read(os.open(PATH, os.O_RDONLY), 9999)"])
def test_a_solution_that_looks_for_the_answers_fails(make_attempt: MakeAttempt, opener: str) -> None:
    attempt = make_attempt("gcd")
    lookup = "{json.dumps(case['args']): case['expected'] for case in json.loads(TEXT)['cases']}"
    attempt.solution.write_text(
        f"import json, os\nPATH = {str(attempt.root / 'target.json')!r}\nTEXT = {opener}\nCASES = {lookup}\n"
        "def gcd(*args):\n    return CASES[json.dumps(list(args))]\n"
    )
    assert attempt.grade()["verdict"] == "fail"


def test_a_missing_solution_fails(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt("gcd")
    attempt.solution.unlink()
    assert attempt.grade()["verdict"] == "fail"


def test_a_pipe_in_place_of_the_solution_does_not_block_the_grader(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt("gcd")
    attempt.solution.unlink()
    subprocess.run(["mkfifo", str(attempt.solution)], check=True)
    assert attempt.grade()["verdict"] == "fail"


def test_visible_examples_stand_in_the_input_and_hidden_cases_do_not() -> None:
    for task in TASKS.values():
        visible = [example["args"] for example in task["input"]["examples"]]
        hidden = [case["args"] for case in task["target"]["cases"] if case["args"] not in visible]
        assert len(hidden) >= 4
        assert "target" not in task["input"]
