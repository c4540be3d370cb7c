from pathlib import Path

import pytest

from labrunner.store.filesystem import filesystem_problem, find_kind, is_unsafe

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
