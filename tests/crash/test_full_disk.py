"""A disk that fills up while trials run says nothing about their agents: they run again."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, write_experiment

pytestmark = [pytest.mark.crash, pytest.mark.root]

FILLER = """
import os, pathlib, time
words, task = pathlib.Path(os.environ["WORDS"]), os.environ["AGENTLAB_TASK_ID"]

def wait_for(*names):
    deadline = time.monotonic() + 30
    while not all((words / name).exists() for name in names) and time.monotonic() < deadline:
        time.sleep(0.02)

if task == "t1" and not (words / "filled").exists():
    wait_for("begun-t0", "begun-t2")
    space = os.statvfs(".")
    FILL
    (words / "filled").touch()
    wait_for("done-t0", "done-t2")
elif task != "t1" and not (words / f"begun-{task}").exists():
    (words / f"begun-{task}").touch()
    wait_for("filled")
try:
    with open("scratch.bin", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2_500_000)  # all or nothing: the run itself needs room, too
    for number in range(200):
        pathlib.Path(f"f{number}").touch()
    prompt = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
    pathlib.Path("answer.txt").write_text(prompt.upper())
finally:
    (words / f"done-{task}").touch()
"""
BYTES = 'pathlib.Path("big").write_bytes(bytes(space.f_bavail * space.f_frsize - 2_000_000))'
FILES = '[pathlib.Path(f"x{n}").touch() for n in range(space.f_favail - 100)]'
GRADER = """
import json, os, pathlib
answer = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt")
verdict = "pass" if answer.exists() and answer.read_text() else "fail"
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": verdict}))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder = tmp_path / "small"
    folder.mkdir()
    size = "size=96m,nr_inodes=6000"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("fill", [BYTES, FILES], ids=["bytes", "files"])
def test_what_ran_on_a_full_disk_is_missing_data_and_runs_again(
    small_disk: Path, tmp_path: Path, fill: str
) -> None:
    words = tmp_path / "words"
    words.mkdir()
    agent = FILLER.replace("FILL", fill)
    extra = "retry_on_error: 3\nmax_concurrency: 3\n"
    folder = write_experiment(tmp_path / "e", agent=agent, grader=GRADER, tasks=3, extra=extra)
    runs = ("--log-dir", str(small_disk / "runs"))
    done = lab("run", "--run-id", "r", *runs, "--env", f"WORDS={words}", cwd=folder)

    assert done.code == 0, done.err
    facts = (small_disk / "runs" / "r" / "facts" / "trials.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in facts]
    assert [row["verdict"] for row in rows] == ["pass"] * len(rows)
