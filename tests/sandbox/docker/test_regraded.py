"""Graders alone, in containers of their own, over what agents of an earlier run left."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import SandboxFailed
from labrunner.sandbox.door import Demands, PhaseEnd, Survivor
from tests.kit.cli.calling import LAB
from tests.kit.docker.killwrapper import KILL_WRAPPER
from tests.kit.docker.site import GRADE, Site
from tests.kit.docker.traces import containers_of
from tests.kit.sandbox.place import sh

EXPERIMENT = """
name: again
tasks:
  - {{id: good, input: right}}
  - {{id: bad, input: wrong}}
  - {{id: killer, input: killer}}
  - {{id: broken, input: broken, setup: {{command: exit 1}}}}
agent:
  user: {user}
  command: >-
    echo once >> ../state/started; cp $task_path answer;
    grep -q killer answer && python3 $agent_dir/kill.py; exit 0
  dir: agent
grader:
  dir: grader
  command: sh $grader_dir/grade.sh
  user: {user}
sandbox: {{kind: docker, image: "{image}", memory_mb: 64}}
keep: {{workspace: always}}
fail_on_error: false
min_free_disk_gb: 0
on_system_change: flag
"""
STRICT = """
grep -q right answer && v=pass || v=fail
echo "{\\"verdict\\": \\"$v\\"}" > $AGENTLAB_BENCHMARK_SCORE_PATH
"""
LENIENT = 'echo \'{"verdict": "pass"}\' > $AGENTLAB_BENCHMARK_SCORE_PATH; touch seen'


def ended(status: int = 3) -> Survivor:
    """What stands in for a container that is not there any more."""
    return Survivor(
        token="t",
        trial_id="t",
        attempt=1,
        phase="barrier",
        is_alive=False,
        ended=PhaseEnd(exit_status=status),
    )


@pytest.mark.parametrize(
    "demands", [Demands(), Demands(restart=True), Demands(fresh_grader=True), Demands(grader_user="app")]
)
async def test_a_grader_has_a_pristine_container_over_the_folders_that_are_left(
    site: Site, demands: Demands
) -> None:
    spec = site.spec(demands=demands)
    (spec.folders.workspace / "answer").write_text("42")
    async with site.maker.adopt(spec, ended()) as sandbox:
        run = await sandbox.run_agent(None, sh("touch ran; exit 1"))
        (spec.folders.grader / "hidden").write_text("42")
        again = await sandbox.run_grader(
            sh("cmp answer /agentlab/grader/hidden && echo no > answer; exit 5", name="grader")
        )
        last = await sandbox.run_grader(sh(f"cat answer; {GRADE}", name="grader", user=demands.grader_user))
    assert run.agent == PhaseEnd(exit_status=3)
    assert (again.exit_status, last.exit_status) == (5, 0)
    assert sandbox.barrier == "fresh_container"
    assert not (spec.folders.workspace / "ran").exists()
    assert len(await site.containers()) == 1
    assert spec.mark is not None
    await site.maker.release(spec.mark.token, keep=False)
    assert await site.containers() == []


async def test_a_container_that_should_be_there_and_is_not_is_no_grader_alone(site: Site) -> None:
    gone = Survivor(token="t", trial_id="t", attempt=1, phase="barrier", is_alive=True)
    with pytest.raises(SandboxFailed, match="not there any more"):
        async with site.maker.adopt(site.spec(), gone):
            pass


class Lab:
    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        (folder / "agent").mkdir()
        (folder / "agent" / "kill.py").write_text(KILL_WRAPPER)
        (folder / "grader").mkdir()
        (folder / "grader" / "grade.sh").write_text(STRICT)
        (folder / "lenient").mkdir()
        (folder / "lenient" / "grade.sh").write_text(LENIENT)
        (folder / "experiment.yaml").write_text(text)

    def __call__(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([LAB, *argv], cwd=self.folder, capture_output=True, text=True, timeout=100)

    def trials(self, run: str) -> dict[str, dict[str, Any]]:
        lines = (self.folder / ".lab/runs" / run / "facts/trials.jsonl").read_text().splitlines()
        return {row["ids"]["task_id"]: row for row in map(json.loads, lines)}


@pytest.mark.parametrize("user", ["null", "app"])
def test_a_run_in_containers_is_graded_again_by_another_grader(tmp_path: Path, ash: str, user: str) -> None:
    lab = Lab(tmp_path, EXPERIMENT.format(image=ash, user=user))
    assert lab("run", "--run-id", "x").returncode == 0

    done = lab("regrade", "x", "--grader", "lenient", "--run-id", "the-run")

    assert done.returncode == 0, done.stderr
    before, after = lab.trials("x"), lab.trials("the-run")
    assert [before[task]["verdict"] for task in ("good", "bad")] == ["pass", "fail"]
    assert [after[task]["verdict"] for task in ("good", "bad")] == ["pass", "pass"]
    assert after["good"]["barrier"] == "fresh_container"
    assert (after["broken"]["cause"], after["broken"]["reason"]) == ("setup", "agent_not_ended")
    started = tmp_path.glob(".lab/runs/*/trials/*/*/state/started")
    assert {path.read_text() for path in started} == {"once\n"}
    assert not list(tmp_path.glob(".lab/runs/x/trials/*/*/workspace/seen"))
    assert asyncio.run(containers_of(tmp_path / ".lab/runs/the-run")) == []
    if user == "null":  # as another user it can't
        assert (after["killer"]["verdict"], after["killer"]["ended_by"]) == ("fail", "wrapper_killed")


def in_image(text: str, workdir: str) -> str:
    return text.replace("memory_mb", f"workdir: {workdir}, memory_mb").replace("../state", "/agentlab/state")


@pytest.mark.parametrize("user", ["null", "app"])
def test_what_an_agent_left_in_its_image_is_graded_again(tmp_path: Path, ash: str, user: str) -> None:
    lab = Lab(tmp_path, in_image(EXPERIMENT.format(image=ash, user=user), "/home/app"))
    text = (tmp_path / "experiment.yaml").read_text()  # the folder is root's
    opened = text.replace("input: right}", "input: right, setup: {command: chmod 777 .}}")
    (tmp_path / "experiment.yaml").write_text(opened)
    assert lab("run", "--run-id", "x", "--task-id", "good").returncode == 0

    done = lab("regrade", "x", "--run-id", "the-run")
    again = lab("regrade", "the-run", "--grader", "lenient", "--run-id", "third")

    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    assert [lab.trials(run)["good"]["verdict"] for run in ("x", "the-run", "third")] == ["pass"] * 3
    assert lab.trials("the-run")["good"]["barrier"] == "fresh_container"
    started = tmp_path.glob(".lab/runs/*/trials/*/*/state/started")
    assert {path.read_text() for path in started} == {"once\n"}
    assert lab("verify", "the-run").returncode == 0


def test_a_layer_that_somebody_changed_is_not_judged(tmp_path: Path, ash: str) -> None:
    lab = Lab(tmp_path, in_image(EXPERIMENT.format(image=ash, user="null"), "/home/app"))
    assert lab("run", "--run-id", "x", "--task-id", "good").returncode == 0
    [layer] = tmp_path.glob(".lab/runs/x/trials/*/1/layer.tar.zst")
    layer.write_bytes(layer.read_bytes()[:-1] + b"!")

    done = lab("regrade", "x", "--run-id", "y")

    assert lab.trials("y")["good"]["reason"] == "workspace_changed", done.stderr
    assert lab("verify", "x").returncode != 0


def test_work_among_the_files_of_the_system_is_not_graded_again(tmp_path: Path, ash: str) -> None:
    lab = Lab(tmp_path, in_image(EXPERIMENT.format(image=ash, user="null"), "/usr"))
    assert lab("run", "--run-id", "x", "--task-id", "good").returncode == 0

    refused = lab("regrade", "x", "--run-id", "y")

    assert refused.returncode == 2
    assert "task good: its agents worked in /usr, where the system of their image lies" in refused.stderr
    assert not (tmp_path / ".lab/runs/y").exists()
