import os
import shutil
import subprocess
from pathlib import Path

import pytest

from labrunner.files.filesystem import filesystem_problem, find_kind, is_unsafe, spread_below

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home rw shared:2 master:1 - nfs4 server:/home rw,vers=4.2
31 30 0:26 / /home/me/my\\040disk rw - ext4 /dev/vdb rw
32 22 0:27 / /data rw - ext4 /dev/vdc rw
33 32 0:28 / /data rw - cifs //server/data rw
34 22 0:29 / /remote rw - fuse.sshfs me@there: rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/runs", "ext4"),
        ("/home/me/.lab/runs", "nfs4"),
        ("/home/me/my disk/runs", "ext4"),
        ("/homestead", "ext4"),
        ("/data/runs", "cifs"),
        ("/remote", "fuse.sshfs"),
    ],
)
def test_the_mount_that_lies_on_top_counts(path: str, kind: str) -> None:
    assert find_kind(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre", "ceph"])
def test_network_file_systems_are_unsafe(kind: str) -> None:
    assert is_unsafe(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk"])
def test_local_file_systems_are_safe(kind: str) -> None:
    assert not is_unsafe(kind)


def test_a_temporary_folder_here_can_hold_runs(tmp_path: Path) -> None:
    assert filesystem_problem(tmp_path / "not" / "yet" / "there") is None


def test_lines_that_are_not_understood_are_left_out() -> None:
    assert find_kind(Path("/x"), "nonsense\n\n1 2 3\n") is None


@pytest.mark.root
def test_trees_below_a_folder_are_spread_over_the_disk_where_it_can_do_that(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root can mount a disk image, and mkfs.ext4 makes it")
    image, place = tmp_path / "image", tmp_path / "place"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        (place / "trials").mkdir()
        spread_below(place / "trials")
        told = subprocess.run(["lsattr", "-d", place / "trials"], check=True, capture_output=True, text=True)
    finally:
        subprocess.run(["umount", place], check=True)
    assert "T" in told.stdout.split()[0]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system that can't")
def test_a_file_system_that_can_not_spread_is_left_as_it_is() -> None:
    spread_below(Path("/dev/shm"))
