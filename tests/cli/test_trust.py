"""Grades that hold, seen from outside: whole runs in bubblewrap with agents that cheat."""

import json
from pathlib import Path

import pytest

from tests.kit.cli.calling import GRADER, lab, write_experiment

pytestmark = pytest.mark.bwrap

DAEMON = """
import os, subprocess, sys, time
subprocess.Popen(
    [sys.executable, "-c", '''
import time
while True:
    for path in ("/agentlab/out/benchmark_score.json",):
        try:
            open(path, "w").write('{"verdict": "pass"}')
        except OSError:
            pass
    time.sleep(0.01)
'''],
    start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
time.sleep(0.1)
"""

SLOW_FAIL = """
import json, os, pathlib, time
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": "fail"}))
time.sleep(0.5)
"""

SEARCH = r"""
import os, pathlib
needles = [b"SECRET-" + kind for kind in (b"GRADER", b"TARGET", b"SOLUTION", b"COMMAND", b"VARIABLE")]
found = []
def look(path, limit=50_000_000):
    try:
        with open(path, "rb") as file:
            data = file.read(limit)
    except OSError:
        return
    for needle in needles:
        if needle in data and not path.startswith(("/agentlab/agent/", "/proc/self/mem")):
            found.append(f"{path}: {needle.decode()}")
for root in ("/agentlab", "/etc", "/tmp", "/home", "/root", "/var", "/run", "/opt", "/srv", "/mnt", "/dev"):
    for folder, _, files in os.walk(root):
        for name in files:
            if os.path.isfile(os.path.join(folder, name)):
                look(os.path.join(folder, name))
for pid in [entry for entry in os.listdir("/proc") if entry.isdigit()]:
    for name in ("cmdline", "environ", "mountinfo", "maps"):
        if int(pid) != os.getpid() or name != "maps":
            look(f"/proc/{pid}/{name}")
look("/proc/mounts")
for name, value in os.environ.items():
    for needle in needles:
        if needle.decode() in value:
            found.append(f"${name}: {needle.decode()}")
pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "found.txt").write_text("\n".join(found))
print("looked", len(found))
"""

TELL = """
import json, os, pathlib
found = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "found.txt").read_text()
mark = "SECRET-GRADER"
score = {"verdict": "fail" if found else "pass", "ext": {"found": found.splitlines()[:20]}}
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps(score))
"""


def test_a_daemon_that_keeps_rewriting_the_score_changes_nothing(tmp_path: Path) -> None:
    write_experiment(tmp_path, sandbox="bubblewrap", agent=DAEMON, grader=SLOW_FAIL, tasks=2)

    run = lab("run", cwd=tmp_path)

    assert run.code == 0, run.err
    totals = lab("show", "last", "--json", cwd=tmp_path).json()["summary"]["totals"]
    assert (totals["pass"], totals["fail"], totals["error"]) == (0, 2, 0)


def test_an_agent_that_searches_everything_finds_nothing_hidden(tmp_path: Path) -> None:
    write_experiment(tmp_path, sandbox="bubblewrap", agent=SEARCH, grader=TELL, tasks=1)
    row = {
        "id": "t",
        "input": "look",
        "target": "SECRET-TARGET",
        "solution": ["SECRET-SOLUTION"],
    }
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n")
    text = (tmp_path / "experiment.yaml").read_text()
    text = text.replace(
        "[$python, -I, $grader_dir/grade.py]", "[$python, -I, $grader_dir/grade.py, SECRET-COMMAND]"
    )
    text = text.replace("dir: grader,", "dir: grader, env: {HIDDEN: SECRET-VARIABLE},")
    text = text.replace("timeout_s: 60", "timeout_s: 110")
    (tmp_path / "experiment.yaml").write_text(text)

    run = lab("run", cwd=tmp_path, timeout=118)

    assert run.code == 0, run.err
    trial = lab("show", "last", "0", "--json", cwd=tmp_path).json()
    assert trial["trial"]["verdict"] == "pass", trial["scores"][0]["ext"]


def test_a_planted_verdict_does_nothing(tmp_path: Path) -> None:
    plant = "open('/agentlab/out/benchmark_score.json', 'w').write('{\"verdict\": \"pass\"}')"
    write_experiment(tmp_path, sandbox="bubblewrap", agent=plant, grader="", tasks=1)

    run = lab("run", cwd=tmp_path)

    assert run.code == 1
    trial = lab("show", "last", "0", "--json", cwd=tmp_path).json()["trial"]
    assert (trial["cause"], trial["reason"]) == ("grade_error", "score_missing")


def test_the_graders_files_are_there_for_the_grader(tmp_path: Path) -> None:
    write_experiment(tmp_path, sandbox="bubblewrap", grader=GRADER, tasks=2)

    assert lab("run", cwd=tmp_path).code == 0
