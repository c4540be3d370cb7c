"""Whole runs whose runner is killed again and again: same bytes, no agent twice, no container left."""

import asyncio
import json
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.kit.cli.calling import LAB
from tests.kit.docker.traces import containers_of
from tests.kit.runner.running import committed_bytes

pytestmark = pytest.mark.crash

EXPERIMENT = """
name: killed
tasks: tasks.jsonl
agent:
  command: >-
    echo agent >> /agentlab/state/started; sleep {agent_s}; cp $task_path answer;
    ! grep -q odd answer || echo changed > /usr/odd; exit 3
  timeout_s: 60
grader:
  command: >-
    sleep 0.1; grep -q odd answer && [ ! -e /usr/odd ] && v=fail || v=pass;
    echo '{{"verdict": "'$$v'"}}' > $$AGENTLAB_BENCHMARK_SCORE_PATH
  timeout_s: 60
sandbox: {{kind: docker, image: "{image}", memory_mb: 128, cpus: 1}}
max_concurrency: 4
min_free_disk_gb: 0
trust: {trust}
fail_on_error: false
"""


class Lab:
    """A folder with an experiment, and the command."""

    def __init__(
        self, folder: Path, image: str, trials: int, *, trust: str = "standard", agent_s: float = 0.3
    ) -> None:
        self.folder = folder
        folder.mkdir()
        text = EXPERIMENT.format(image=image, trust=trust, agent_s=agent_s)
        (folder / "experiment.yaml").write_text(text)
        rows = [{"id": f"t{n}", "input": "odd" if n % 2 else "even"} for n in range(trials)]
        (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    @property
    def run(self) -> Path:
        return self.folder / ".lab" / "runs" / "the-run"

    def start(self, *argv: str, env: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [LAB, *argv],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def go_on(self) -> "subprocess.Popen[bytes]":
        if self.run.is_dir():
            return self.start("continue", "the-run")
        return self.start("run", "--run-id", "the-run")

    def finish(self) -> None:
        process = self.go_on()
        _, told = process.communicate(timeout=300)
        assert process.returncode == 0, told.decode()

    def starts(self) -> Counter[str]:
        """How often each trial's agent was started, whatever became of the attempt."""
        files = self.run.glob("trials/*/*/state/started")
        return Counter(path.parts[-4] for path in files for _ in path.read_text().split())


@pytest.fixture
def seed() -> int:
    seed = int(os.environ.get("LAB_TEST_SEED", random.SystemRandom().randrange(10**6)))
    print(f"LAB_TEST_SEED={seed}")
    return seed


def kill_again_and_again(lab: Lab, kills: int, chance: random.Random) -> int:
    """Kill the runner at moments of chance; how often it was alive to be killed."""
    done = 0
    for _ in range(kills):
        process = lab.go_on()
        try:
            process.wait(timeout=chance.uniform(0.8, 4.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
        if process.stderr is not None:
            process.stderr.close()
    return done


def check(lab: Lab, calm: Lab, trials: int) -> None:
    starts = lab.starts()
    assert len(starts) == trials
    assert set(starts.values()) == {1}, {trial: count for trial, count in starts.items() if count > 1}
    assert committed_bytes(lab.run) == committed_bytes(calm.run)
    assert asyncio.run(containers_of(lab.run)) == []
    assert asyncio.run(containers_of(calm.run)) == []


@pytest.mark.timeout(240)
def test_a_run_whose_runner_is_killed_ends_as_if_nothing_had_happened(
    tmp_path: Path, ash: str, seed: int
) -> None:
    lab, calm = Lab(tmp_path / "killed", ash, 16), Lab(tmp_path / "calm", ash, 16)
    calm.finish()
    kill_again_and_again(lab, 4, random.Random(seed))
    lab.finish()
    check(lab, calm, 16)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("point", ["commit.begun", "commit.rows_synced", "commit.acknowledged"])
def test_a_runner_killed_at_its_commit_owes_and_leaves_nothing(tmp_path: Path, ash: str, point: str) -> None:
    lab, calm = Lab(tmp_path / "killed", ash, 3), Lab(tmp_path / "calm", ash, 3)
    calm.finish()
    process = lab.start("run", "--run-id", "the-run", env={"LAB_DIE_AT": f"{point}:1"})
    process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL
    lab.finish()
    check(lab, calm, 3)


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("trust", ["standard", "strict"])
def test_twenty_kills_over_sixty_trials(tmp_path: Path, ash: str, seed: int, trust: str) -> None:
    # Agents so slow that the run can't be over before it was killed twenty times.
    lab, calm = (Lab(tmp_path / name, ash, 60, trust=trust, agent_s=5) for name in ("killed", "calm"))
    calm.finish()
    assert kill_again_and_again(lab, 20, random.Random(seed)) == 20
    lab.finish()
    check(lab, calm, 60)
