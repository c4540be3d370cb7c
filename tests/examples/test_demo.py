"""`scripts/demo` with a stand-in for `lab`: what it runs, and what it says about it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "scripts" / "demo"
LAB = """#!/bin/sh
echo "lab $*" >> calls
case "$*" in
  run*) echo "success" ;;
  *process*) exit {process} ;;
  *) echo "NO  bubblewrap  user namespaces are off"; exit {bubblewrap} ;;
esac
"""
EXPERIMENT = "examples/quickstart/experiment.yaml"


def demo(
    folder: Path, *, bubblewrap: int, process: int, path: str = "/usr/bin:/bin"
) -> tuple[int, str, list[str]]:
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(DEMO, folder / "scripts")
    lab = folder / ".venv" / "bin" / "lab"
    lab.parent.mkdir(parents=True)
    lab.write_text(LAB.format(bubblewrap=bubblewrap, process=process))
    lab.chmod(0o755)
    done = subprocess.run(
        ["bash", "scripts/demo"], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()


def test_it_runs_in_bubblewrap_and_says_how_to_reach_the_command(tmp_path: Path) -> None:
    place = tmp_path / "my checkout"
    code, out, calls = demo(place, bubblewrap=0, process=0)
    assert code == 0
    assert calls[-1] == f"lab run {EXPERIMENT}"
    line = next(line for line in out.splitlines() if line.startswith("to have `lab` at hand:"))
    command = line.partition(":  ")[2]
    found = subprocess.run(
        ["bash", "-c", f"{command}; command -v lab"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == str(place / ".venv/bin/lab")


def test_whoever_has_the_command_at_hand_is_not_told(tmp_path: Path) -> None:
    path = f"{tmp_path / '.venv/bin'}:/usr/bin:/bin"
    assert "at hand" not in demo(tmp_path, bubblewrap=0, process=0, path=path)[1]


def test_without_bubblewrap_it_says_why_and_runs_without_isolation(tmp_path: Path) -> None:
    code, out, calls = demo(tmp_path, bubblewrap=2, process=0)
    assert code == 0
    assert "user namespaces are off" in out
    assert "WITHOUT isolation: --sandbox process" in out
    assert calls[-1] == f"lab run {EXPERIMENT} --sandbox process"


@pytest.mark.parametrize("other", [1, 2])
def test_what_is_not_bubblewraps_fault_is_not_blamed_on_it(tmp_path: Path, other: int) -> None:
    code, out, calls = demo(tmp_path, bubblewrap=2, process=other)
    assert code == 1
    assert "WITHOUT isolation" not in out
    assert not [call for call in calls if call.startswith("lab run")]
