"""The real `lab` with real sandboxes, killed again and again: no process is left, nothing finished lost."""

import subprocess
import uuid
from functools import partial
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from tests.kit.cli.calling import AGENT_SHOUTS, LAB, environment, lab, write_experiment
from tests.kit.runner.running import committed_bytes
from tests.kit.sandbox.kinds import KINDS
from tests.kit.waiting import wait_for

pytestmark = pytest.mark.crash

LEAVES_A_CHILD = """
import os, subprocess, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
time.sleep(0.2)
"""


def marked(mark: str) -> list[int]:
    """Processes that carry a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_three_times_ends_as_if_undisturbed_and_leaves_no_process(
    kind: str, tmp_path: Path
) -> None:
    if kind == "bubblewrap" and not works_here()[0]:
        pytest.skip(works_here()[1])
    mark = f"mark-{uuid.uuid4()}"
    write_experiment(
        tmp_path,
        sandbox=kind,
        tasks=8,
        agent=LEAVES_A_CHILD + AGENT_SHOUTS,
        extra="max_concurrency: 3\n",
    )
    words = ("--run-id", "same", "--env", f"MARK={mark}")
    assert lab("run", *words, "--log-dir", "undisturbed", cwd=tmp_path).code == 0
    paths = RunPaths(tmp_path / "killed/same")
    command = ["run", *words]
    for wanted in (1, 3, 5):
        owner = subprocess.Popen(
            [LAB, *command, "--log-dir", "killed"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(partial(has_finished, paths, wanted))
        before = finished(paths)
        owner.kill()
        owner.wait()
        wait_for(lambda: not marked(mark))
        assert finished(paths) >= before
        assert verify(paths).problems == ()
        command = ["continue", "same"]
    assert lab("continue", "same", "--log-dir", "killed", cwd=tmp_path).code == 0
    wait_for(lambda: not marked(mark))
    assert committed_bytes(paths.root) == committed_bytes(tmp_path / "undisturbed/same")
    assert verify(paths).problems == ()


def has_finished(paths: RunPaths, wanted: int) -> bool:
    return finished(paths) >= wanted


def finished(paths: RunPaths) -> int:
    return sum(1 for _ in iter_finished(paths)) if paths.run.exists() else 0
