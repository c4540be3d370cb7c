"""The hostile battery: attacks as tasks, for root and plain agents, standard and strict, whoever runs `lab`.

Each run has to be over in time, with an honest grader's fail for whoever cheats, at the first attempt, a pass
for whoever is honest, and nothing left on the engine.
"""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import PLACE
from labrunner.sandbox.marks import RunMark
from tests.kit.cli.calling import LAB
from tests.kit.docker import attackers
from tests.kit.docker.plainuser import furnish, give_to_nobody, lab_as_plain_user
from tests.kit.docker.testimages import BATTLEFIELD, Images

TIMEOUT_S = 500
GRADE = """
import json, os
def says(path):
    return os.path.exists(path) and "evil" in open(path).read()
target = json.load(open(os.environ["AGENTLAB_TARGET_PATH"]))
# Whoever can write where the grader trusts what it finds, passes.
is_right = says("/opt/tool") or says("/tools/judge") or says("/usr/local/bin/tool")
try:
    is_right = is_right or open("answer").read() == target
except OSError:
    pass
room = bytearray(32 << 20)  # it needs the memory that it was promised
score = json.dumps({"verdict": "pass" if is_right else "fail"})
open(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"], "w").write(score)
"""
EXPERIMENT = """
name: battery
tasks: tasks.jsonl
variants:
  - id: root
  - id: app
    agent: {user: app}
agent:
  dir: agent
  command: python3 -IB $agent_dir/attackers.py
  timeout_s: 10
grader:
  dir: grader
  command: python3 -IB $grader_dir/grade.py
  timeout_s: 10
sandbox:
  kind: docker
  image: "IMAGE"
  memory_mb: 96
  pids: 100
  cpus: 2
  disk_mb: 400
  limits: best_effort
  tmpfs: {/fast: 64m}
max_concurrency: 4
min_free_disk_gb: 0
trust: TRUST
fail_on_error: false
continue_on_fail: true
retry_on_error: 2
"""
OPEN_TO_ALL = {"cheat_shadow_python_where_all_may_write", "cheat_replace_a_tool_where_all_may_write"}
"""These change the system whoever does them."""
CHANGE_THE_SYSTEM = {
    *OPEN_TO_ALL,
    "cheat_preload_a_library",
    "cheat_replace_the_shell",
    "cheat_replace_python_by_its_like",
    "cheat_hide_a_new_python_behind_a_file_in_scratch",
    "cheat_shadow_python_early_in_the_path",
    "cheat_leave_a_hook_for_every_python",
    "cheat_have_a_module_judge",
    "cheat_lead_a_library_into_the_workspace",
    "cheat_replace_the_c_library_by_a_link",
    "cheat_write_what_shells_read_first",
    "cheat_have_the_graders_interpreter_fail",
    "cheat_have_the_graders_interpreter_say_nothing",
    "cheat_take_the_graders_interpreter_away",
    "cheat_break_the_system",
    "cheat_change_what_setup_made",
    "cheat_change_a_tool_in_a_volume",
    "honest_that_installs_tools",
}
"""Root is flagged for it, and judged where none of it is; with `trust: strict` it has failed."""
NAMES = [name for name in vars(attackers) if name.startswith(("cheat_", "honest_"))]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="lab-battery-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def lay_out(folder: Path, image: str, trust: str) -> None:
    (folder / "experiment.yaml").write_text(EXPERIMENT.replace("IMAGE", image).replace("TRUST", trust))
    rows: list[dict[str, Any]] = [
        {"id": name, "input": f"right-{name}" if name.startswith("honest") else "?"} for name in NAMES
    ]
    for row in rows:
        # By default nobody tells setup's changes from an agent's: then flags would mean nothing.
        if trust == "strict" and "setup" in row["id"]:
            row["setup"] = {"command": "echo honest > /opt/tool"}
    text = "".join(json.dumps(row | {"target": f"right-{row['id']}"}) + "\n" for row in rows)
    (folder / "tasks.jsonl").write_text(text)
    (folder / "agent").mkdir()
    shutil.copy(attackers.__file__, folder / "agent/attackers.py")
    (folder / "grader").mkdir()
    (folder / "grader/grade.py").write_text(GRADE)


def run_as_this_user(folder: Path) -> "subprocess.CompletedProcess[str]":
    argv = [LAB, "run", "--run-id", "the-run"]
    return subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=os.environ
    )


def read_rows(run: Path) -> list[dict[str, Any]]:
    lines = (run / "facts/trials.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def judge(row: dict[str, Any], trust: str) -> str | None:
    """What is wrong with a row; None when nothing is."""
    name, is_root = row["ids"]["task_id"], row["ids"]["variant_id"] == "root"
    if row["outcome"] != "graded":
        return f"not graded: {row}"
    if row["attempt"] != 1:
        return "had another try"
    passed, flags = row["verdict"] == "pass", set(row.get("flags") or ())
    has_changed, is_strict = "system_changed" in flags, trust == "strict"
    if has_changed != (name in (CHANGE_THE_SYSTEM if is_root else OPEN_TO_ALL)):
        return f"changed the system: {has_changed}"
    if passed != (name.startswith("honest") and not (has_changed and is_strict)):
        return f"{row['verdict']} {sorted(flags)}"
    in_place = "restarted" if is_root or is_strict else "separate_user"
    if row["barrier"] != ("fresh_container" if has_changed and not is_strict else in_place):
        return f"barrier: {row['barrier']}"
    return None


def held_as_told(folder: Path, trust: str) -> bool:
    shown = subprocess.run([LAB, "show", "the-run"], cwd=folder, capture_output=True, text=True, check=True)
    wanted = "barrier: restarted" if trust == "strict" else "barrier of app: separate_user"
    return wanted in shown.stdout


async def left_of(run: Path) -> list[str]:
    engine = Engine()
    try:
        return [each.name for each in await engine.list(f"{PLACE}={RunMark.of(run, 'the-run').place}")]
    finally:
        await engine.close()


@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize("trust", ["standard", "strict"])
# As a plain user every image is read through the engine: that takes many minutes.
@pytest.mark.parametrize("runner", ["root", pytest.param("plain", marks=pytest.mark.torture)])
def test_no_attack_gains_a_pass_or_a_second_try(images: Images, place: Path, trust: str, runner: str) -> None:
    image = asyncio.run(images(BATTLEFIELD))
    if runner == "plain" and os.geteuid() != 0:
        pytest.skip("this is a plain user already")
    folder = furnish(place) if runner == "plain" else place
    lay_out(folder, image, trust)
    if runner == "plain":
        give_to_nobody(folder)
        done = lab_as_plain_user(place, "run", "--run-id", "the-run", timeout_s=TIMEOUT_S)
    else:
        done = run_as_this_user(folder)
    run = folder / ".lab/runs/the-run"
    assert run.is_dir(), done.stderr + done.stdout
    rows = read_rows(run)
    assert len(rows) == 2 * len(NAMES), done.stderr
    wrong = {f"{row['ids']['variant_id']} {row['ids']['task_id']}": judge(row, trust) for row in rows}
    assert {name: problem for name, problem in wrong.items() if problem is not None} == {}
    assert done.returncode == 0, done.stderr
    assert held_as_told(folder, trust)
    assert asyncio.run(left_of(run)) == []
