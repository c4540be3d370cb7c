"""Real runs to damage, a finished one and a crashed one, and `lab` inside this process to ask about them."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.kit.cli.calling import AGENT_SHOUTS, GRADER, LAB, Answer, environment, write_experiment
from tests.kit.waiting import wait_for

FINISHED, CRASHED = "finished", "crashed"
HELD = "t3"
"""Its agent waits while the run is made to crash: three are committed before it, two wait behind it."""
WAITING_AGENT = """
import os, pathlib, time
while os.environ["AGENTLAB_TASK_ID"] == "{held}" and not pathlib.Path("{gate}").exists():
    time.sleep(0.05)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Masters:
    """A folder of runs that nobody changes: copies of it are damaged."""

    folder: Path

    def copy_to(self, folder: Path) -> Path:
        """A copy of the runs' folder."""
        shutil.copytree(self.folder / "runs", folder / "runs", symlinks=True)
        return folder / "runs"


def make_masters(folder: Path) -> Masters:
    """Run `lab` for real: once to its end, once until it is killed with results committed and buffered."""
    gate = folder / "gate"
    gate.touch()
    agent = WAITING_AGENT.format(held=HELD, gate=gate) + AGENT_SHOUTS
    extra = "max_concurrency: 2\nkeep: {workspace: always}\n"
    home = write_experiment(folder / "home", agent=agent, grader=GRADER, tasks=6, extra=extra)
    words: list[str | Path] = [LAB, "run", "--log-dir", folder / "runs", "--run-id"]
    for run_id in (FINISHED, "another"):
        subprocess.run([*words, run_id], cwd=home, env=environment(), check=True, capture_output=True)
    gate.unlink()
    for run_id in (CRASHED, "another-crashed"):
        process = subprocess.Popen([*words, run_id], cwd=home, env=environment(), stderr=subprocess.DEVNULL)
        run = folder / "runs" / run_id
        wait_for(partial(_stands_at, run / "status.json", (3, 2)))
        wait_for((run / "benchmark" / "summary.json").exists)  # written after the status
        process.kill()
        process.wait()
    gate.touch()
    return Masters(folder=folder)


def _stands_at(status: Path, finished: tuple[int, int]) -> bool:
    if not status.exists():
        return False
    counts = json.loads(status.read_text())["counts"]
    return (counts["committed"], counts["buffered"]) == finished


Lab = Callable[..., Answer]


def tree(root: Path) -> dict[str, bytes]:
    """Every file's content by name, but for the lock's text, and what SQLite makes for who reads."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    if not found.get("buffer.sqlite-wal"):
        found.pop("buffer.sqlite-wal", None)
    return {name: content for name, content in found.items() if name not in {"lock", "buffer.sqlite-shm"}}


def change(path: Path, old: bytes, new: bytes) -> None:
    """Change one place of a file that must be there."""
    content = path.read_bytes()
    assert old in content, content[:2000]
    path.write_bytes(content.replace(old, new, 1))
