from pathlib import Path

import pytest

from labrunner.sandbox.processes.cgroup import (
    STALE_AFTER_S,
    ControlGroups,
    GroupLimits,
    control_groups,
    find,
    limit_files,
    parse_membership,
    sweep,
)

V1_MOUNTS = """\
30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 /docker/abc /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids
33 25 0:29 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
"""
V1_MEMBERSHIP = "9:cpu,cpuacct:/user\n8:memory:/docker/abc/x\n7:pids:/\n0::/user\n"
V2_MOUNTS = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def make_folder(prefix: Path, path: str, controllers: str | None = None) -> None:
    folder = prefix / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").touch()
    if controllers is not None:
        (folder / "cgroup.subtree_control").write_text(controllers)


def test_version_1_groups_are_made_below_our_own_in_each_tree(tmp_path: Path) -> None:
    for path in ("cpu,cpuacct/user", "memory/x", "pids"):
        make_folder(tmp_path, f"/sys/fs/cgroup/{path}")
    found = find(V1_MEMBERSHIP, V1_MOUNTS, str(tmp_path))
    assert found is not None
    assert found.version == 1
    assert found.parents == found.own
    assert found.parents == {
        "memory": f"{tmp_path}/sys/fs/cgroup/memory/x",
        "pids": f"{tmp_path}/sys/fs/cgroup/pids",
        "cpu": f"{tmp_path}/sys/fs/cgroup/cpu,cpuacct/user",
    }


def test_version_2_groups_are_made_beside_our_own(tmp_path: Path) -> None:
    top = "/sys/fs/cgroup"
    make_folder(tmp_path, top, "cpu io memory pids")
    make_folder(tmp_path, f"{top}/user.slice", "memory pids")
    make_folder(tmp_path, f"{top}/user.slice/session.scope", "")
    found = find("0::/user.slice/session.scope\n", V2_MOUNTS, str(tmp_path))
    assert found is not None
    assert found.version == 2
    assert found.parents == dict.fromkeys(("memory", "pids"), f"{tmp_path}{top}/user.slice")
    assert found.own == dict.fromkeys(("memory", "pids"), f"{tmp_path}{top}/user.slice/session.scope")


def test_without_a_delegated_group_there_is_none(tmp_path: Path) -> None:
    make_folder(tmp_path, "/sys/fs/cgroup", "")
    make_folder(tmp_path, "/sys/fs/cgroup/a", "")
    assert find("0::/a\n", V2_MOUNTS, str(tmp_path)) is None
    assert find("", "", str(tmp_path)) is None


def test_a_version_2_group_is_one_folder_with_every_limit(tmp_path: Path) -> None:
    groups = ControlGroups(
        version=2,
        parents=dict.fromkeys(("memory", "pids", "cpu"), str(tmp_path)),
        own=dict.fromkeys(("memory", "pids", "cpu"), str(tmp_path / "own")),
    )
    group = groups.make(GroupLimits(memory_bytes=1 << 20, pids=7, cpus=0.5))
    assert len(group.folders) == 1
    assert Path(group.folders[0]).parent == tmp_path
    assert group.way_back == (str(tmp_path / "own"),)
    Path(group.folders[0], "memory.events").write_text("low 0\noom 3\noom_kill 2\noom_group_kill 9\n")
    assert group.oom_kills() == 2


@pytest.mark.parametrize(
    ("version", "controller", "files"),
    [
        (1, "cpu", (("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "150000"))),
        (2, "cpu", (("cpu.max", "150000 100000"),)),
        (1, "memory", (("memory.limit_in_bytes", "1024"), ("memory.memsw.limit_in_bytes", "1024"))),
        (2, "memory", (("memory.max", "1024"), ("memory.swap.max", "0"))),
        (1, "pids", (("pids.max", "9"),)),
        (2, "pids", (("pids.max", "9"),)),
    ],
)
def test_files_of_a_limit(version: int, controller: str, files: tuple[tuple[str, str], ...]) -> None:
    limits = GroupLimits(memory_bytes=1024, pids=9, cpus=1.5)
    assert limit_files(version, controller, limits) == files  # type: ignore[arg-type] # pytest knows no literals


def test_only_named_limits_need_a_controller() -> None:
    assert GroupLimits(pids=3).controllers() == ("pids",)
    assert GroupLimits().controllers() == ()


def test_membership_of_joined_controllers() -> None:
    assert parse_membership("4:cpu,cpuacct:/a\n0::/b\n") == {"cpu": "/a", "cpuacct": "/a", "": "/b"}


def test_stale_groups_of_dead_runners_are_swept(tmp_path: Path) -> None:
    import os
    import time

    long_ago = time.time() - 2 * STALE_AFTER_S
    names = {"labrunner-99999999-1": True, f"labrunner-{os.getpid()}-1": False, "somebody-else": False}
    for name in names:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / "labrunner-99999999-2").mkdir()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"labrunner-{os.getpid()}-1",
        "somebody-else",
        "labrunner-99999999-2",
    }


@pytest.mark.usefixtures("need_groups")
def test_a_real_group_is_made_and_removed() -> None:
    groups = control_groups()
    assert groups is not None
    group = groups.make(GroupLimits(memory_bytes=64 << 20, pids=8, cpus=0.5))
    try:
        assert all(Path(folder).is_dir() for folder in group.folders)
        assert group.oom_kills() == 0
    finally:
        group.remove()
    assert not any(Path(folder).exists() for folder in group.folders)
