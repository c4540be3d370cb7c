"""The power cut over what agents left: work that is kept, and work that waits for its grader."""

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli.calling import GRADER, LAB, environment, lab, write_experiment
from tests.kit.crash.disks import copy_image, make_image, mounted, skip_without_disks
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.crash, pytest.mark.root]


def totals(run: str, place: Path, folder: Path) -> tuple[int, int, int]:
    found = lab("show", run, "--json", "--log-dir", place, cwd=folder).json()["summary"]["totals"]
    return found["pass"], found["fail"], found["error"]


def test_kept_workspaces_are_on_the_disk_when_their_run_has_ended(tmp_path: Path) -> None:
    skip_without_disks()
    write_experiment(tmp_path)
    make_image(tmp_path / "disk")
    with mounted(tmp_path / "disk", tmp_path / "mounted") as place:
        ran = lab("run", "--run-id", "x", "--keep-workspace", "always", "--log-dir", place, cwd=tmp_path)
        copy_image(tmp_path / "disk", tmp_path / "copy")
        before = totals("x", place, tmp_path)
    assert ran.code == 0, ran.err

    with mounted(tmp_path / "copy", tmp_path / "left") as place:
        assert lab("verify", "x", "--log-dir", place, cwd=tmp_path).code == 0
        lab("regrade", "x", "--run-id", "y", "--log-dir", place, cwd=tmp_path)
        assert totals("y", place, tmp_path) == before == (2, 1, 0)


def continue_after_reboot(place: Path, folder: Path) -> int:
    """Go on with the run in another boot of the machine, as far as anybody can tell."""
    (folder / "boot_id").write_text("0b0070ff-0000-4000-8000-000000000000\n")
    words = f"mount --bind {folder / 'boot_id'} /proc/sys/kernel/random/boot_id && exec {LAB} continue x"
    command = ["unshare", "-m", "sh", "-c", f"{words} --log-dir {place}"]
    return subprocess.run(command, cwd=folder, env=environment(), timeout=100, check=False).returncode


def count_at_grader(buffer: Path) -> int:
    """Attempts of which a runner noted that their agent had ended."""
    if not buffer.exists():
        return 0
    database = sqlite3.connect(f"file:{buffer}?mode=ro", uri=True)
    try:
        (row,) = database.execute("SELECT count(barrier) FROM attempts").fetchall()
        return int(row[0])
    except sqlite3.OperationalError:  # being made
        return 0
    finally:
        database.close()


@pytest.mark.parametrize("knows_owner", [True, False])
def test_work_that_nobody_synced_is_not_graded_after_a_power_cut(tmp_path: Path, knows_owner: bool) -> None:
    skip_without_disks()
    patient = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.02)\n"
    write_experiment(tmp_path, grader=patient + GRADER)
    text = (
        (tmp_path / "experiment.yaml").read_text().replace("dir: grader,", "dir: grader, repeatable: true,")
    )
    (tmp_path / "experiment.yaml").write_text(text)
    make_image(tmp_path / "disk")
    with mounted(tmp_path / "disk", tmp_path / "mounted") as place:
        words = [LAB, "run", "--run-id", "x", "--max-concurrency", "2", "--log-dir", str(place)]
        owner = subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: count_at_grader(place / "x" / "buffer.sqlite") == 2)
            for file in place.glob("x/buffer.sqlite*"):  # as if the kernel had written this first
                fd = os.open(file, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)
            copy_image(tmp_path / "disk", tmp_path / "copy")
        finally:
            owner.kill()
            owner.wait()

    (tmp_path / "go").touch()
    with mounted(tmp_path / "copy", tmp_path / "left") as place:
        if not knows_owner:
            os.truncate(place / "x" / "lock", 0)
        assert continue_after_reboot(place, tmp_path) == 0
        assert totals("x", place, tmp_path) == (2, 1, 0)
