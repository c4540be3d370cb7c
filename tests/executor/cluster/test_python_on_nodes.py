"""Python tasks on a real cluster of three nodes on this host: the same bytes as here."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, squeeze
from tests.kit.executor.rayclusters import RayCluster, running_three
from tests.kit.solve.chatserver import ChatServer, Say, last_user, serving

pytestmark = pytest.mark.timeout(400)  # a cluster is a dozen processes of Python

KEY = "sk-of-a-model-5512fe-nowhere-to-be-found"
NODES = ("n1", "n2", "n3")
TASK = """
import json
from pathlib import Path

from labrunner import Task, task
from labrunner.dataset import Sample, json_dataset
from labrunner.scorer import includes
from labrunner.solver import generate, system_message
from kit.words import shout

@task
def capitals(count: int = 6):
    return Task(
        dataset=json_dataset("cities.jsonl")[:count],
        solver=[system_message("prompt.txt"), generate(), shout()],
        scorer=includes(),
    )
"""
WORDS = """
from labrunner.solver import solver

@solver
def shout():
    async def solve(state, generate):
        state.output.completion = state.output.completion.upper()
        return state
    return solve
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with running_three() as made:
        yield made


def write_project(folder: Path) -> Path:
    (folder / "kit").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    (folder / "kit/__init__.py").write_text("")
    (folder / "kit/words.py").write_text(WORDS)
    (folder / "capitals.py").write_text(TASK)
    (folder / "prompt.txt").write_text("Answer in one word.")
    rows = [{"id": f"s{n}", "input": f"city {n}", "target": f"CITY {n if n else 9}"} for n in range(6)]
    (folder / "cities.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def digest(folder: Path, run_id: str) -> str:
    lines = (folder / ".lab/runs" / run_id / "commits.jsonl").read_text().splitlines()
    return str(json.loads(lines[-1])["chain"])


def nodes(folder: Path, run_id: str) -> set[str | None]:
    lines = (folder / ".lab/runs" / run_id / "facts/timings.jsonl").read_text().splitlines()
    return {each.get("node") for line in lines for each in json.loads(line)["attempts"]}


def env_of(server: ChatServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}


def on_cluster(cluster: RayCluster, size: int) -> tuple[str, ...]:
    where = ("--executor", "ray", "--executor-address", cluster.address)
    return (*where, "--set", f"executor.labels={{of{size}: y}}")


def test_the_digest_is_the_same_here_and_on_one_two_and_three_nodes(
    tmp_path: Path, cluster: RayCluster
) -> None:
    folder = write_project(tmp_path / "p")
    words = ("run", "capitals.py", "--model", "mock/echo", "--run-id")
    done = lab(*words, "here", cwd=folder)
    assert done.code == 0, done.err
    for size in (1, 3):
        done = lab(*words, f"on{size}", *on_cluster(cluster, size), cwd=folder, timeout=300)
        assert done.code == 0, done.err
        assert digest(folder, f"on{size}") == digest(folder, "here")
        assert nodes(folder, f"on{size}") == set(NODES[:size])


def test_connections_are_counted_over_all_nodes(tmp_path: Path, cluster: RayCluster) -> None:
    folder = write_project(tmp_path / "p")

    def answer(asked: dict[str, object]) -> Say:
        time.sleep(0.2)
        return Say(text=last_user(asked))

    with serving(answer) as server:
        words = ("run", "capitals.py", "--model", "openai/m", "--max-connections", "2", "--run-id", "x")
        done = lab(*words, *on_cluster(cluster, 3), cwd=folder, env=env_of(server), timeout=300)
    assert done.code == 0, done.err
    assert nodes(folder, "x") == set(NODES)
    assert (len(server.requests), server.most_at_once) == (6, 2)


def test_what_a_node_can_not_make_is_a_check_that_names_file_import_and_node(
    tmp_path: Path, cluster: RayCluster
) -> None:
    folder = write_project(tmp_path / "p")
    (folder / "kit/words.py").write_text(
        "import os\nif 'ray::' in open('/proc/self/comm').read(): import of_nobody\n" + WORDS
    )
    words = ("capitals.py", "--model", "mock/echo", *on_cluster(cluster, 2))
    for command in ("doctor", "run"):
        done = lab(command, *words, cwd=folder, timeout=300)
        assert done.code == 2
        said = squeeze(done.out + done.err)
        assert "No module named 'of_nobody'" in said
        assert f"{folder}/capitals.py: loading the file" in said
        assert "n1" in said
        assert "n2" in said
    assert not (folder / ".lab/runs").exists()
