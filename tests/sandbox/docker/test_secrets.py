"""Secrets that an agent in a container writes down, as root and as a plain user."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli.calling import LAB

SECRET = "sk-live-0123456789abcdef"
EXPERIMENT = """
schema: 1
name: leaky
tasks: [{{id: a, input: 1}}]
agent:
  command: "cat $$AGENTLAB_TASK_PATH; {leak}; exit 3"
  secrets: [KEY]
  user: {user}
  timeout_s: 30
grader:
  command: "echo '{{\\"verdict\\": \\"fail\\"}}' > $$AGENTLAB_BENCHMARK_SCORE_PATH"
  timeout_s: 30
sandbox: {{image: "{image}", memory_mb: 256}}
collect: [/tmp/report]
keep: {{workspace: always}}
min_free_disk_gb: 0
fail_on_error: false
"""
LEAK = (
    "echo $$KEY; echo $$KEY > w.txt; mkdir -m 700 locked; echo $$KEY > locked/$$KEY; chmod 0 locked; "
    "echo $$KEY > ../out/traj.json; echo $$KEY > ../state/cache; echo $$KEY > /tmp/report; ln -s /$$KEY link"
)


@pytest.mark.parametrize("user", ["null", "app"])
def test_no_file_of_a_run_has_a_secret(tmp_path: Path, ash: str, user: str) -> None:
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT.format(image=ash, user=user, leak=LEAK))
    env = {**os.environ, "KEY": SECRET}
    words = [LAB, "run", "--run-id", "x"]

    ended = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)

    root = tmp_path / ".lab/runs/x"
    timing = json.loads((root / "facts/timings.jsonl").read_text())["attempts"][-1]
    assert ended.returncode == 0, ended.stderr
    assert {"workspace/w.txt", "out/traj.json", "state/cache", "logs/agent.stdout"} <= set(timing["masked"])
    assert {"workspace/link", "artifacts/tmp/report"} <= set(timing["masked"])
    found = subprocess.run(["grep", "-r", "-l", SECRET, root], capture_output=True, text=True, check=False)
    assert found.stdout == ""
    named = subprocess.run(["find", root, "-name", f"*{SECRET}*"], capture_output=True, text=True, check=True)
    assert named.stdout == ""
    assert subprocess.run([LAB, "verify", "x"], cwd=tmp_path, check=False).returncode == 0
