"""Adding an option touches one place: a row in a copy of the source, and everything else follows."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import labrunner
from tests.kit.cli.calling import environment, write_experiment

ROW = """
    RunOption(
        name="min_free_disk",
        goal=Laid(Override("min_free_disk", float | None), ("min_free_disk_gb",)),
        flags=("--min-free-disk",),
        help="gigabytes that stay free",
        commands=CONTINUED,
        going_on="gigabytes that stay free from now on",
        word=float,
        kind=kinds.NOT_NEGATIVE,
    ),
)
"""
PLACE = Path("experiment", "options", "experiment_options.py")
PROGRAM = "from labrunner.cli.main import main; main()"
EVALUATION = """
from pathlib import Path
from labrunner import Task, eval
from labrunner.dataset import Sample
from labrunner.errors import InputError
from labrunner.scorer import includes

def run(value):
    task = Task(name="one", dataset=[Sample(input="x", target="x")], scorer=includes())
    return eval(task, "mock/echo", log_dir="python", display=False, min_free_disk=value)

try:
    run("much")
except InputError as refused:
    print(refused)
print(run(0.5)[0].location)
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source with one more row in the table."""
    folder = tmp_path_factory.mktemp("source")
    package = Path(labrunner.__file__).parent
    shutil.copytree(package, folder / "labrunner", ignore=shutil.ignore_patterns("__pycache__"))
    table = folder / "labrunner" / PLACE
    text = table.read_text("utf-8")
    assert text.endswith("\n)\n")
    table.write_text(text.removesuffix(")\n") + ROW.lstrip("\n"), "utf-8")
    return folder


def call(changed: Path, *argv: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    known = {
        **environment(),
        **(env or {}),
        "PYTHONPATH": f"{changed}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    ended = subprocess.run([sys.executable, "-c", *argv], cwd=cwd, env=known, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def recorded(run: Path) -> tuple[object, object]:
    """What the run's record keeps of the option, and the policy that followed."""
    record = json.loads((run / "run.json").read_text())
    return record["overrides"]["min_free_disk"], record["experiment"]["policy"]["min_free_disk_gb"]


def test_it_is_an_option_of_every_command_that_the_row_names(changed: Path, tmp_path: Path) -> None:
    for command in ("run", "plan", "doctor", "retry", "set"):
        told = " ".join(call(changed, PROGRAM, command, "--help", cwd=tmp_path).split())
        assert "--min-free-disk <float> gigabytes that stay free [env var: LAB_MIN_FREE_DISK]" in told
    told = " ".join(call(changed, PROGRAM, "continue", "--help", cwd=tmp_path).split())
    assert "--min-free-disk <float> gigabytes that stay free from now on" in told
    assert "--min-free-disk" not in call(changed, PROGRAM, "regrade", "--help", cwd=tmp_path)


def test_it_takes_effect_and_is_recorded_as_word_and_as_variable(changed: Path, tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=1)
    runs = tmp_path / ".lab" / "runs"
    common = ("run", "--sandbox", "process", "--run-id")
    call(changed, PROGRAM, *common, "word", "--min-free-disk", "0.25", cwd=tmp_path)
    call(changed, PROGRAM, *common, "variable", cwd=tmp_path, env={"LAB_MIN_FREE_DISK": "0.125"})
    assert recorded(runs / "word") == (0.25, 0.25)
    assert recorded(runs / "variable") == (0.125, 0.125)
    call(changed, PROGRAM, "retry", "word", "--run-id", "again", cwd=tmp_path)
    call(changed, PROGRAM, "retry", "word", "--run-id", "anew", "--min-free-disk", "0.5", cwd=tmp_path)
    assert recorded(runs / "again") == (0.25, 0.25)
    assert recorded(runs / "anew") == (0.5, 0.5)


def test_a_run_that_goes_on_obeys_it(changed: Path, tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=2)
    begun = [sys.executable, "-c", PROGRAM, "run", "--sandbox", "process", "--run-id", "x"]
    known = {**environment(), "PYTHONPATH": str(changed)}
    subprocess.run(begun, cwd=tmp_path, env={**known, "LAB_DIE_AT": "create.done:1"}, check=False)
    going_on = [sys.executable, "-c", PROGRAM, "continue", "x", "--min-free-disk"]
    refused = subprocess.run([*going_on, "1e9"], cwd=tmp_path, env=known, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "1,000,000,000" in refused.stderr or "1e+09" in refused.stderr, refused.stderr
    subprocess.run([*going_on, "0.25"], cwd=tmp_path, env=known, check=True)


def test_it_is_a_keyword_that_is_checked_obeyed_and_recorded(changed: Path, tmp_path: Path) -> None:
    told, place = call(changed, EVALUATION, cwd=tmp_path).splitlines()
    assert told == "min_free_disk: must be a number from 0 on, found text 'much'"
    assert recorded(tmp_path / place) == (0.5, 0.5)
