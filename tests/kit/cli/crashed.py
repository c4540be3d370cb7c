"""A run whose owner died in the midst of it."""

import json
import subprocess
from pathlib import Path

from tests.kit.cli.calling import AGENT_SHOUTS, LAB, environment, write_experiment
from tests.kit.waiting import wait_for

SLOW_FIRST = 'import os, time\nif os.environ["AGENTLAB_TASK_ID"] == "t1": time.sleep(600)\n' + AGENT_SHOUTS


def crash(folder: Path) -> Path:
    """Leave a run that died with slot 0 committed, slot 1 under way, and two finished behind it."""
    write_experiment(folder, agent=SLOW_FIRST, tasks=4, extra="max_concurrency: 2\n")
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "x"], cwd=folder, env=environment(), stderr=subprocess.DEVNULL
    )
    status = folder / ".lab/runs/x/status.json"
    wait_for(lambda: status.exists() and json.loads(status.read_text())["counts"]["buffered"] == 2)
    process.kill()
    process.wait()
    return folder
