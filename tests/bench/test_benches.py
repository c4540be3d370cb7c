"""Each bench runs with tiny sizes and prints its ratio last. Nothing here is timed."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.catalogue import NAMES, find
from bench.figures import Result
from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.browser import BROWSER

REPOSITORY = Path(__file__).parents[2]
TINY = {
    "engine": {"trials": 20, "concurrency": 4},
    "files": {"trials": 3, "concurrency": 2},
    "bubblewrap": {"trials": 2, "concurrency": 2},
    "docker": {"trials": 2, "concurrency": 2},
    "gateway": {"requests": 3, "pieces": 3, "streams": 2, "calls": 200, "trials": 2},
    "memory": {"trials": 20, "concurrency": 4},
    "cluster": {"trials": 240, "nodes": 4, "per_node": 4},
    "nodes": {"trials": 4, "kilospins": 1, "quick": 20},
    "wire": {"trials": 20, "per_node": 2},
    "start": {"starts": 1},
    "recover": {"trials": 20},
    "retry": {"trials": 20},
    "listing": {"runs": 3, "trials": 20},
    "analysis": {"trials": 20},
    "view": {"trials": 2000, "said": 20, "live": 16000, "rate": 1000, "concurrency": 4},
    "shortcuts": {"calls": 1, "trials": 20, "dispatches": 20},
}


def run_bench(*words: str) -> subprocess.CompletedProcess[str]:
    # A process of its own: benches adopt and reap every process that is left behind.
    argv = [sys.executable, "-m", "bench", *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=REPOSITORY)


STARTS_A_CLUSTER = {"nodes", "wire"}
LONG = (pytest.mark.torture, pytest.mark.timeout(600))
"""One cluster after another, each a dozen processes of Python."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=LONG) if name in STARTS_A_CLUSTER else name for name in TINY],
)
def test_a_bench_prints_its_ratio_last_and_keeps_a_line(name: str, tmp_path: Path) -> None:
    if name in {"bubblewrap", "gateway"} and not works_here()[0]:
        pytest.skip(works_here()[1])
    if name == "docker" and os.environ.get("LAB_NO_DOCKER") and not os.environ.get("CI"):
        pytest.skip("LAB_NO_DOCKER is set")
    if name == "view" and BROWSER is None:
        pytest.skip("no chromium here; scripts/with-browser installs it")
    sizes = [word for size, value in TINY[name].items() for word in (f"--{size}", str(value))]
    done = run_bench(name, *sizes, "--rounds", "1", "--results", str(tmp_path))
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.strip().splitlines()
    kept = msgspec.json.decode((tmp_path / f"{name}.jsonl").read_bytes(), type=Result)
    assert last.split()[0] == "ratio"
    assert kept.figures[-1].name == "ratio"
    assert kept.figures[-1].value > 0
    assert kept.sizes == TINY[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_bench_takes_at_least_three_rounds_unless_told_otherwise(name: str) -> None:
    assert find(name).name == name
    assert find(name).rounds >= 3


def test_an_unknown_bench_is_refused_with_the_names_of_those_that_exist() -> None:
    answer = run_bench("engin")
    assert answer.returncode == 1
    assert "there is no bench 'engin'; there are: engine, files" in answer.stderr
