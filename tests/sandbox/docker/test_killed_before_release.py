"""What a runner of containers leaves that is killed between a commit and the removal of what is not kept."""

import asyncio
import os
import subprocess
from pathlib import Path

from tests.kit.cli.calling import LAB
from tests.kit.docker.traces import containers_of

EXPERIMENT = """
schema: 1
name: left
tasks: [{{id: a, input: 1}}, {{id: b, input: 2}}, {{id: c, input: 3}}]
agent: {{command: "echo done > answer", timeout_s: 30}}
grader:
  command: "echo '{{\\"verdict\\": \\"pass\\"}}' > $$AGENTLAB_BENCHMARK_SCORE_PATH"
  timeout_s: 30
sandbox: {{image: "{image}", memory_mb: 256}}
max_concurrency: 1
min_free_disk_gb: 0
"""
GONE = ("workspace", "ctl", "agent")


def find_gone(root: Path) -> list[Path]:
    return [path for name in GONE for path in root.glob(f"trials/*/1/{name}")]


def test_folders_of_finished_containers_go_with_the_next_owner_of_the_run(tmp_path: Path, ash: str) -> None:
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT.format(image=ash))
    root = tmp_path / ".lab/runs/x"
    env = {**os.environ, "LAB_DIE_AT": "commit.acknowledged:3"}
    words = [LAB, "run", "--run-id", "x"]
    killed = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, timeout=100, check=False)
    before = find_gone(root)

    words = [LAB, "continue", "x"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)

    assert (killed.returncode, done.returncode) == (-9, 0), done.stderr
    assert {"workspace", "ctl"} <= {path.name for path in before}
    assert find_gone(root) == []
    assert asyncio.run(containers_of(root)) == []
