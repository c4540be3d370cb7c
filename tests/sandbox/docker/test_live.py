"""What is under way in containers, as people and readers of the run's directory see it."""

import json
from pathlib import Path

from tests.kit.cli.calling import lab
from tests.kit.cli.live import TRIAL, running
from tests.kit.docker.trials import PASS

WAIT = "echo {0} begins; while [ ! -e /agentlab/workspace/go-{0} ]; do sleep 0.05; done"


def write_waiting(folder: Path, image: str) -> Path:
    folder.mkdir()
    experiment = {
        "name": "waiting",
        "tasks": [{"id": "t0", "input": "wait"}],
        "setup": {"command": ["/bin/sh", "-c", WAIT.format("setup")]},
        "agent": {"command": ["/bin/sh", "-c", WAIT.format("agent")], "timeout_s": 120},
        "grader": {
            "command": ["/bin/sh", "-c", f"{WAIT.format('grader')}; {PASS}"],
            "timeout_s": 120,
        },
        "sandbox": {"kind": "docker", "image": image, "memory_mb": 256, "pull": "never"},
        "min_free_disk_gb": 0,
        "on_system_change": "flag",
    }
    (folder / "experiment.yaml").write_text(json.dumps({"schema": 1, **experiment}))
    return folder


def test_every_phase_in_a_container_is_listed_and_shown(tmp_path: Path, ash: str) -> None:
    folder = write_waiting(tmp_path / "e", ash)
    with running(folder) as run:
        for phase in ("setup", "agent", "grader"):
            seen = run.await_phase(phase)
            assert seen.trial_id == TRIAL
            assert seen.began_at is not None
            shown = lab("show", "r", "t0", cwd=folder).out
            assert f"{TRIAL}: running, {phase} for 0:" in shown
            assert f"{phase} begins" in shown
            run.go(phase)
        run.end()
        assert "under_way" not in lab("show", "r", "--json", cwd=folder).json()
