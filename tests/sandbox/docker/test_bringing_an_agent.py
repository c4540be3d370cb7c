"""The experiment of the page "Bringing a command-line agent", run as it stands there with a stand-in CLI."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli.calling import LAB

PAGE = Path(__file__).parents[3] / "docs" / "bringing-an-agent.md"
CLI = """#!/bin/sh
# A stand-in: reads its prompt from standard input, needs a key and a home, knows two things.
[ "$1 $3" = "--model --yes" ] || exit 2
[ -n "$API_KEY" ] || exit 3
[ "$API_KEY" = outage-outage ] && exit 75
[ "$(id -u)" = 1234 ] || exit 5
mkdir "$HOME/.answer" && echo "$2" > "$HOME/.answer/model" || exit 6
echo "using the key $API_KEY"
case "$(cat)" in
    *capital*) echo Paris > answer.txt ;;
    *river*) [ "$2" = large ] && echo Loire > answer.txt || echo Seine > answer.txt ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, ash: str) -> Path:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "my/image:1" in example
    (tmp_path / "experiment.yaml").write_text(example.replace("my/image:1", ash) + "\nmin_free_disk_gb: 0\n")
    program = tmp_path / "agent" / "bin" / "answer-cli"
    program.parent.mkdir(parents=True)
    program.write_text(CLI)
    program.chmod(0o755)
    return tmp_path


def lab(folder: Path, *argv: str, key: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "API_KEY": key}
    return subprocess.run([LAB, *argv], cwd=folder, env=env, capture_output=True, text=True)


def rows(folder: Path) -> dict[tuple[str, str], dict[str, object]]:
    text = (folder / ".lab/runs/the-run/facts/trials.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    return {(row["ids"]["task_id"], row["ids"]["variant_id"]): row for row in found}


def test_it_runs_as_the_page_says(folder: Path) -> None:
    doctor = lab(folder, "doctor", key="secret-key-1")
    assert doctor.returncode == 0, doctor.stdout
    assert "as it should" in doctor.stdout
    run = lab(folder, "run", "--run-id", "the-run", key="secret-key-1")
    assert run.returncode == 0, run.stderr
    found = rows(folder)
    assert {key: row["verdict"] for key, row in found.items()} == {
        ("capital", "small"): "pass",
        ("capital", "large"): "pass",
        ("river", "small"): "fail",
        ("river", "large"): "pass",
    }
    assert {row["barrier"] for row in found.values()} == {"separate_user"}
    logs = list(folder.glob(".lab/runs/the-run/trials/*/1/logs/agent.stdout"))
    assert {path.read_text() for path in logs} == {"using the key [masked:API_KEY]\n"}


def test_a_provider_that_is_down_is_no_failure_of_the_agent(folder: Path) -> None:
    run = lab(folder, "run", "--run-id", "the-run", "--no-fail-on-error", key="outage-outage")
    assert run.returncode == 0, run.stderr
    found = rows(folder)
    assert {(row["outcome"], row["cause"], row["verdict"]) for row in found.values()} == {
        ("failed", "provider", None)
    }
