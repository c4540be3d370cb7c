"""What a runner of containers leaves that is killed between a commit and the removal of what is not kept."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

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


IN_THE_IMAGE = EXPERIMENT.replace("grader:", "grader:\n  where: fresh").replace(
    "sandbox: {{", "sandbox: {{workdir: /home/app, "
)


@pytest.mark.parametrize("point", ["layer.written:2", "commit.acknowledged:3", "none:1"])
def test_no_layer_is_left_of_work_that_is_not_kept(tmp_path: Path, ash: str, point: str) -> None:
    """Killed while one is taken, before one could be thrown away, and not at all."""
    keep = "keep: {workspace: never}\n"
    (tmp_path / "experiment.yaml").write_text(IN_THE_IMAGE.format(image=ash) + keep)
    env = {**os.environ, "LAB_DIE_AT": point} if point != "none:1" else dict(os.environ)
    words = [LAB, "run", "--run-id", "x"]
    killed = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, timeout=100, check=False)
    assert killed.returncode == (0 if point == "none:1" else -9), killed.stderr
    if killed.returncode:
        assert list(tmp_path.glob(".lab/runs/x/trials/*/*/layer*"))
        words = [LAB, "continue", "x"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob(".lab/runs/x/**/layer*")) == []
