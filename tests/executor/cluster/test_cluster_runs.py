"""Runs on a real cluster of three nodes on this host: the same bytes, whoever dies."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.cli.calling import AGENT_SHOUTS, LAB, Answer, environment, lab, write_experiment
from tests.kit.executor.rayclusters import RayCluster, running_three
from tests.kit.waiting import wait_for

pytestmark = pytest.mark.timeout(400)  # a cluster is a dozen processes of Python

WAITING = (
    """
import os, pathlib, time
with open(os.environ["STARTS"], "a") as file:
    file.write(os.environ["AGENTLAB_TASK_ID"] + "\\n")
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
"""
    + AGENT_SHOUTS
)
"""Says that it has begun, and works once it may. Sandboxes of processes see the host's files."""
HERE = ("--executor", "local")
NAMES = {1: ("n1",), 2: ("n1", "n2"), 3: ("n1", "n2", "n3")}
TASKS = 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with running_three() as made:
        yield made


def digest_of(folder: Path, run_id: str) -> str:
    lines = (folder / ".lab/runs" / run_id / "commits.jsonl").read_text().splitlines()
    return str(json.loads(lines[-1])["chain"])


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An experiment with more trials than nodes take at once, and the digest of its run on this machine."""
    folder = write_experiment(tmp_path_factory.mktemp("many") / "m", tasks=40)
    done = lab("run", "--run-id", "here", "--max-concurrency", "2", cwd=folder, timeout=300)
    assert done.code == 0, done.err
    return folder, digest_of(folder, "here")


class Waiting:
    """An experiment whose agents wait, and what may be done about a run of it."""

    def __init__(self, folder: Path, cluster: RayCluster) -> None:
        plan = f"{{kind: ray, address: '{cluster.address}', per_node: 2}}"
        extra = f"keep: {{workspace: always}}\nexecutor: {plan}\n"
        self.folder = write_experiment(folder, agent=WAITING, tasks=TASKS, extra=extra)
        self.cluster = cluster

    @property
    def go(self) -> Path:
        return self.folder / "go"

    @property
    def starts(self) -> list[str]:
        path = self.folder / "starts"
        return path.read_text().split() if path.exists() else []

    @property
    def words(self) -> tuple[str, ...]:
        return ("--env", f"STARTS={self.folder / 'starts'}", "--env", f"GO={self.go}")

    def run_here(self) -> str:
        """The digest of a run on this machine, whose agents need not wait."""
        self.go.touch()
        done = lab("run", "--run-id", "here", *HERE, *self.words, cwd=self.folder, timeout=300)
        assert done.code == 0, done.err
        self.go.unlink()
        (self.folder / "starts").unlink()
        return self.digest("here")

    def begin(self, run_id: str, *words: str) -> "subprocess.Popen[bytes]":
        """A run under way; two agents of each node that is asked for have begun."""
        with (self.folder / f"{run_id}.err").open("wb") as said:
            return subprocess.Popen(
                [LAB, "run", "--run-id", run_id, *self.words, *words],
                cwd=self.folder,
                env=environment(),
                stderr=said,
                stdout=said,
            )

    def on_cluster(self, size: int) -> tuple[str, ...]:
        return ("--set", f"executor.labels={{of{size}: y}}")

    def until_begun(self, count: int) -> None:
        wait_for(lambda: len(self.starts) >= count, timeout=150)

    def go_on(self, run_id: str, *words: str) -> Answer:
        return lab("continue", run_id, *words, cwd=self.folder, timeout=300)

    def end(self, process: "subprocess.Popen[bytes]", run_id: str) -> None:
        assert process.wait(300) == 0, (self.folder / f"{run_id}.err").read_text()

    def digest(self, run_id: str) -> str:
        return digest_of(self.folder, run_id)

    def verdicts(self, run_id: str) -> list[str]:
        lines = (self.folder / ".lab/runs" / run_id / "facts/trials.jsonl").read_text().splitlines()
        return [json.loads(line)["verdict"] for line in lines]

    def nodes(self, run_id: str) -> set[str | None]:
        lines = (self.folder / ".lab/runs" / run_id / "facts/timings.jsonl").read_text().splitlines()
        return {each.get("node") for line in lines for each in json.loads(line)["attempts"]}


@pytest.fixture
def waiting(tmp_path: Path, cluster: RayCluster) -> Waiting:
    return Waiting(tmp_path / "w", cluster)


def test_the_digest_is_the_same_here_and_on_one_two_and_three_nodes(waiting: Waiting) -> None:
    here = waiting.run_here()
    for size, names in NAMES.items():
        run = waiting.begin(f"on{size}", *waiting.on_cluster(size))
        waiting.until_begun(2 * size)
        waiting.go.touch()
        waiting.end(run, f"on{size}")
        assert waiting.digest(f"on{size}") == here
        assert waiting.nodes(f"on{size}") == set(names)
        assert lab("verify", f"on{size}", cwd=waiting.folder).code == 0
        waiting.go.unlink()
        (waiting.folder / "starts").unlink()
    left = [
        path for node in NAMES[3] for path in (waiting.cluster.node_dir(node) / "runs").glob("*/trials/*")
    ]
    assert left == []


@pytest.mark.parametrize(("size", "concurrency"), [(1, 1), (1, 32), (2, 2), (2, 32), (3, 1), (3, 8), (3, 32)])
def test_the_digest_is_the_same_however_many_attempts_nodes_have_at_once(
    cluster: RayCluster, many: tuple[Path, str], size: int, concurrency: int
) -> None:
    folder, here = many
    at_once = ("--set", f"executor.per_node={-(-concurrency // size)}", "--max-concurrency", str(concurrency))
    where = ("--executor", "ray", "--executor-address", cluster.address)
    of_size = ("--set", f"executor.labels={{of{size}: y}}")
    name = f"on{size}by{concurrency}"
    done = lab("run", "--run-id", name, *where, *of_size, *at_once, cwd=folder, timeout=300)
    assert done.code == 0, done.err
    assert digest_of(folder, name) == here


def test_a_worker_that_is_killed_costs_no_result(waiting: Waiting) -> None:
    here = waiting.run_here()
    run = waiting.begin("x", *waiting.on_cluster(2))
    waiting.until_begun(4)
    (victim,) = waiting.cluster.nodes["n2"].pids("ray::Worker")
    os.kill(victim, signal.SIGKILL)
    waiting.until_begun(6)  # those of the killed one are begun again
    waiting.go.touch()
    waiting.end(run, "x")
    assert waiting.digest("x") == here
    said = (waiting.folder / "x.err").read_text()
    assert "raylet" not in said, "Ray writes into people's output"
    assert "SIGTERM" not in said


def test_a_run_goes_on_on_the_cluster_when_its_runner_was_killed(waiting: Waiting) -> None:
    here = waiting.run_here()
    run = waiting.begin("x", *waiting.on_cluster(2))
    waiting.until_begun(4)
    run.kill()
    run.wait()
    waiting.go.touch()
    done = waiting.go_on("x")
    assert done.code == 0, done.err
    assert waiting.digest("x") == here
    assert waiting.nodes("x") <= set(NAMES[2])


def test_a_run_of_a_cluster_goes_on_here_and_one_from_here_there(waiting: Waiting) -> None:
    here = waiting.run_here()
    there = waiting.begin("x", *waiting.on_cluster(1))
    waiting.until_begun(2)
    there.kill()
    there.wait()
    local = waiting.begin("y", *HERE, "--max-concurrency", "2")
    waiting.until_begun(4)
    local.kill()
    local.wait()
    waiting.go.touch()
    done = waiting.go_on("x", *HERE)
    assert done.code == 0, done.err
    assert (waiting.digest("x"), waiting.nodes("x")) == (here, {None})
    done = waiting.go_on("y", "--executor", "ray", "--executor-address", waiting.cluster.address)
    assert done.code == 0, done.err
    assert waiting.digest("y") == here
    assert waiting.nodes("y") <= {*NAMES[3]}


def test_kept_work_is_judged_on_nodes_and_what_failed_is_tried_again_there(waiting: Waiting) -> None:
    waiting.run_here()
    address = ("--executor", "ray", "--executor-address", waiting.cluster.address)
    done = lab("regrade", "here", "--run-id", "again", *address, cwd=waiting.folder, timeout=300)
    assert done.code == 0, done.err
    assert waiting.nodes("again") <= {*NAMES[3]}
    assert waiting.verdicts("again") == waiting.verdicts("here")
    assert waiting.starts == []
    waiting.go.touch()
    done = lab("retry", "here", "--run-id", "retried", *address, cwd=waiting.folder, timeout=300)
    assert done.code == 0, done.err
    assert waiting.digest("retried") == waiting.digest("here")


SECRET = "a-secret-value-that-is-nowhere-b81f"
TELLS = """
import os, pathlib
pathlib.Path("told").write_text("not a secret: open-word-77c1")
print(os.environ["TOKEN"])
"""


def test_a_secret_reaches_agents_and_no_disk(tmp_path: Path, cluster: RayCluster) -> None:
    extra = f"keep: {{workspace: always}}\nexecutor: {{kind: ray, address: '{cluster.address}'}}\n"
    folder = write_experiment(tmp_path / "w", agent=TELLS + AGENT_SHOUTS, tasks=2, extra=extra)
    text = (folder / "experiment.yaml").read_text()
    (folder / "experiment.yaml").write_text(text.replace("dir: agent,", "dir: agent, secrets: [TOKEN],"))
    done = lab("run", "--run-id", "x", cwd=folder, env={"TOKEN": SECRET}, timeout=300)
    assert done.code == 0, done.err
    logs = list((folder / ".lab/runs/x/trials").glob("*/1/logs/agent.stdout"))
    assert len(logs) == 2
    assert all(log.stat().st_size for log in logs), "the agent had no secret to tell"
    places = [cluster.folder, folder, tmp_path]
    assert find_word(places, "open-word-77c1"), "nothing would be found this way"
    assert find_word(places, SECRET) == []


def find_word(places: list[Path], word: str) -> list[Path]:
    """Files below some folders that hold a word; Ray's session is among them, with its logs."""
    files = [
        path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    return [path for path in files if word.encode() in path.read_bytes()]


def test_a_node_that_falls_over_gives_its_slots_to_others(waiting: Waiting) -> None:
    here = waiting.run_here()
    run = waiting.begin("x", *waiting.on_cluster(3))
    waiting.until_begun(6)
    waiting.cluster.nodes["n3"].kill_raylet()
    wait_for(lambda: not waiting.cluster.nodes["n3"].pids("ray::Worker"))
    waiting.go.touch()
    waiting.end(run, "x")
    assert waiting.digest("x") == here
    assert waiting.nodes("x") <= {*NAMES[3]}
