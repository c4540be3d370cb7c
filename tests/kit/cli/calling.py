"""The real `lab` as a real process, for tests of the command line."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAB = str(Path(sys.executable).with_name("lab"))


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAB_")}
    return {**kept, "COLUMNS": "120", **changes}


def lab(*words: str | Path, cwd: Path, env: dict[str, str] | None = None, timeout: float = 100) -> Answer:
    ended = subprocess.run(
        [LAB, *map(str, words)],
        cwd=cwd,
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Answer(ended.returncode, ended.stdout, ended.stderr)


def squeeze(text: str) -> str:
    return " ".join(text.split())


AGENT_SHOUTS = """
import os, pathlib
prompt = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").write_text(prompt.upper())
"""

GRADER = """
import json, os, pathlib
target = json.loads(pathlib.Path(os.environ["AGENTLAB_TARGET_PATH"]).read_text())
answer = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").read_text()
verdict = {"verdict": "pass" if answer == target else "fail"}
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps(verdict))
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_PREDICTION_PATH"]).write_text(
    json.dumps({"kind": "text", "value": answer})
)
"""


def write_experiment(
    folder: Path,
    *,
    sandbox: str = "process",
    tasks: int = 3,
    agent: str = AGENT_SHOUTS,
    grader: str = GRADER,
    extra: str = "",
    name: str = "shout",
) -> Path:
    """Write a small experiment: agents that shout, and a grader that knows one answer that is not so."""
    (folder / "agent").mkdir(parents=True)
    (folder / "grader").mkdir()
    (folder / "agent" / "agent.py").write_text(agent)
    (folder / "grader" / "grade.py").write_text(grader)
    rows = [{"id": f"t{n}", "input": f"word {n}", "target": f"WORD {n if n else 99}"} for n in range(tasks)]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "experiment.yaml").write_text(
        f"schema: 1\nname: {name}\ntasks: tasks.jsonl\n"
        "agent: {command: [$python, $agent_dir/agent.py], dir: agent, timeout_s: 60}\n"
        "grader: {command: [$python, -I, $grader_dir/grade.py], dir: grader, timeout_s: 60}\n"
        f"sandbox: {{kind: {sandbox}}}\n"
        f"min_free_disk_gb: 0\n{extra}"
    )
    return folder
